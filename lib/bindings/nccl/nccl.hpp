// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL as a table of calls: one name per call, no policy. The real NCCL is opened at run time; tests supply their own
// table. Using it needs no header of NCCL or CUDA.

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

/// ncclComm_t and cudaStream_t. Null stands for none.
using Comm = void*;
using Stream = void*;

struct UniqueId {
  std::array<char, 128> bytes = {};
};

/// The values of ncclRedOp_t that lockstep uses.
enum class RedOp : std::uint8_t { sum, prod, max, min };

/// Whether NCCL supports elements of `dtype`: all but 16-bit integers, which can be moved as bytes only. bool is passed
/// as u8.
[[nodiscard]] bool is_reducible(DType dtype) noexcept;

/// The calls. Each does the same as the NCCL call of that name. Communicators are non-blocking: any call may return
/// in_progress, and `comm_get_async_error` then tells when it is complete. Groups belong to the calling thread. Counts
/// are in elements. Thread-safe, but each communicator may be used by one thread at a time.
class Api {
 public:
  virtual ~Api() = default;

  [[nodiscard]] virtual Result get_version(int& version) = 0;  ///< 22809 for 2.28.9
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

/// The result of looking for NCCL.
struct Library {
  std::shared_ptr<Api> api;  ///< null if NCCL cannot be used; `why` is the reason
  int version = 0;
  std::string path;  ///< path of the library file
  std::string why;   ///< "cannot open NCCL: libnccl.so.2: ...", "... is NCCL 2.17.1; lockstep needs 2.18 or newer"
};

/// The oldest supported version of NCCL.
inline constexpr int least_version = 21800;

/// Opens NCCL: the file `path`; if `path` is empty, the NCCL that is loaded in the process already, otherwise
/// libnccl.so.2. It is never closed. Thread-safe.
[[nodiscard]] Library open_library(const std::string& path);

/// The file that this process opens as NCCL: the one that its Environment names, otherwise the one that LOCKSTEP_NCCL
/// names.
struct LibraryName {
  std::string file;     ///< empty if no file is named
  std::string_view by;  ///< "EnvironmentOptions::nccl_library" or "LOCKSTEP_NCCL"
};

/// Names a file; "" stands for none. Returns false, and changes nothing, if NCCL has been opened already. Thread-safe.
[[nodiscard]] bool name_library(const std::string& file);

/// The file to open as NCCL. After this call `name_library` returns false. Thread-safe.
[[nodiscard]] LibraryName take_library_name();

}  // namespace lockstep::detail::nccl
