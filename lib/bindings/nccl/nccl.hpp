// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL as a table of calls, one entry per NCCL call, without policy. The real NCCL is opened at run time; tests supply
// their own table. Code that uses the table needs no header of NCCL or CUDA.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::detail::nccl {

/// ncclResult_t.
enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// ncclComm_t and cudaStream_t; null if there is none.
using Comm = void*;
using Stream = void*;

struct UniqueId {
  std::array<char, 128> bytes = {};
};

/// The values of ncclRedOp_t that lockstep uses.
enum class RedOp : std::uint8_t { sum, prod, max, min };

/// Whether NCCL supports elements of `dtype`. NCCL supports all types but 16-bit integers, which it can move only as
/// bytes. bool is passed as u8.
[[nodiscard]] bool is_reducible(DType dtype) noexcept;

/// The calls. Each call does the same as the NCCL call of the same name. Communicators are non-blocking: any call may
/// return in_progress, and `comm_get_async_error` then tells when this call is complete. The group of `group_start` and
/// `group_end` consists of calls of one thread. Counts are numbers of elements. Thread-safe, but only one thread at a
/// time may use a communicator.
class Api {
 public:
  virtual ~Api() = default;

  [[nodiscard]] virtual Result get_version(int& version) = 0;  ///< 22809 for version 2.28.9
  [[nodiscard]] virtual Result get_unique_id(UniqueId& id) = 0;
  /// Creates a communicator on the calling thread's current device, with blocking = 0.
  [[nodiscard]] virtual Result comm_init_rank(Comm& comm, int ranks, const UniqueId& id, int rank) = 0;
  [[nodiscard]] virtual Result comm_finalize(Comm comm) = 0;
  [[nodiscard]] virtual Result comm_destroy(Comm comm) = 0;
  /// Ends the communicator's work on the device, and frees the communicator.
  [[nodiscard]] virtual Result comm_abort(Comm comm) = 0;
  [[nodiscard]] virtual Result comm_get_async_error(Comm comm, Result& error) = 0;
  [[nodiscard]] virtual std::string error_string(Result result) const = 0;
  /// NCCL's text about the last failure in this process.
  [[nodiscard]] virtual std::string last_error(Comm comm) const = 0;

  [[nodiscard]] virtual Result group_start() = 0;
  [[nodiscard]] virtual Result group_end() = 0;

  [[nodiscard]] virtual Result all_reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op,
                                          Comm comm, Stream stream) = 0;
  [[nodiscard]] virtual Result reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op,
                                      int root, Comm comm, Stream stream) = 0;
  [[nodiscard]] virtual Result broadcast(const void* source, void* target, std::size_t count, DType dtype, int root,
                                         Comm comm, Stream stream) = 0;
  /// `count` is the number of elements of the target.
  [[nodiscard]] virtual Result reduce_scatter(const void* source, void* target, std::size_t count, DType dtype,
                                              RedOp op, Comm comm, Stream stream) = 0;
  /// `count` is the number of elements of the source.
  [[nodiscard]] virtual Result all_gather(const void* source, void* target, std::size_t count, DType dtype, Comm comm,
                                          Stream stream) = 0;
  [[nodiscard]] virtual Result send(const void* source, std::size_t count, DType dtype, int peer, Comm comm,
                                    Stream stream) = 0;
  [[nodiscard]] virtual Result recv(void* target, std::size_t count, DType dtype, int peer, Comm comm,
                                    Stream stream) = 0;
};

/// The result of `open_library`.
struct Library {
  std::shared_ptr<Api> api;  ///< null if NCCL cannot be used; `why` is then the reason
  int version = 0;
  std::string path;  ///< path of the library file
  std::string why;   ///< "cannot open NCCL: libnccl.so.2: ...", "... is NCCL 2.26.5; lockstep needs 2.27.3 or newer"
};

/// The oldest supported version of NCCL. Communicators are non-blocking, because a blocking call could not be given up
/// when a rank is missing: it would hold the lock under which the engine reports the failure. Up to 2.26 the state of a
/// non-blocking group belongs to the thread that made it (src/group.cc: ncclGroupJobMain), and a thread that polls
/// another communicator overwrites it; since 2.27.3 several non-blocking communicators may be polled in parallel
/// (release notes of 2.27.3). Versions before 2.23 also let GPUs of one process write each other's memory directly,
/// which the memory of a pool does not permit without NCCL_P2P_DIRECT_DISABLE=1.
inline constexpr int least_version = 22703;

/// "2.28.9" for 22809.
[[nodiscard]] std::string version_text(int code);

/// Opens NCCL: the file `path` or, if `path` is empty, the NCCL that is already loaded in the process or, if none is
/// loaded, libnccl.so.2. The library is never closed. Thread-safe.
[[nodiscard]] Library open_library(const std::string& path);

/// The file that this process opens as NCCL: the file that the program has named in its EnvironmentOptions or, if there
/// is none, the file that the environment variable LOCKSTEP_NCCL names.
struct LibraryName {
  std::string file;     ///< empty if no file is named
  std::string_view by;  ///< "EnvironmentOptions::nccl_library" or "LOCKSTEP_NCCL"
};

/// Sets the file to open as NCCL; "" means that no file is named. After `take_library_name`, returns false and changes
/// nothing. Thread-safe.
[[nodiscard]] bool name_library(const std::string& file);

/// The file to open as NCCL. After this call `name_library` returns false. Thread-safe.
[[nodiscard]] LibraryName take_library_name();

}  // namespace lockstep::detail::nccl
