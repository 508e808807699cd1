// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL as a table of calls: one name per call, no policy. The real one is opened at run time; tests bring their own. No
// header of NCCL or CUDA is needed to use it.

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

/// ncclComm_t and cudaStream_t. Null: none.
using Comm = void*;
using Stream = void*;

struct UniqueId {
  std::array<char, 128> bytes = {};
};

/// ncclRedOp_t, of those that lockstep uses.
enum class RedOp : std::uint8_t { sum, prod, max, min };

/// Whether NCCL moves and adds elements of `dtype`: not 16-bit integers, which travel as bytes alone; bool as u8.
[[nodiscard]] bool is_reducible(DType dtype) noexcept;

/// The calls. Each does what NCCL's of the same name does. Communicators are non-blocking: any call may give
/// in_progress, and `comm_get_async_error` then says when it is through. Groups belong to the calling thread. Counts
/// are elements. Thread-safe, each communicator for one thread at a time.
class Api {
 public:
  virtual ~Api() = default;

  [[nodiscard]] virtual Result get_version(int& version) = 0;  ///< 22809 for 2.28.9
  [[nodiscard]] virtual Result get_unique_id(UniqueId& id) = 0;
  /// On the calling thread's current device, with blocking = 0.
  [[nodiscard]] virtual Result comm_init_rank(Comm& comm, int ranks, const UniqueId& id, int rank) = 0;
  [[nodiscard]] virtual Result comm_finalize(Comm comm) = 0;
  [[nodiscard]] virtual Result comm_destroy(Comm comm) = 0;
  /// Ends what runs on the device, and frees the communicator.
  [[nodiscard]] virtual Result comm_abort(Comm comm) = 0;
  [[nodiscard]] virtual Result comm_get_async_error(Comm comm, Result& error) = 0;
  [[nodiscard]] virtual std::string error_string(Result result) const = 0;
  /// What NCCL has to say about the last failure of this process.
  [[nodiscard]] virtual std::string last_error(Comm comm) const = 0;

  [[nodiscard]] virtual Result group_start() = 0;
  [[nodiscard]] virtual Result group_end() = 0;

  [[nodiscard]] virtual Result all_reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op,
                                          Comm comm, Stream stream) = 0;
  [[nodiscard]] virtual Result reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op,
                                      int root, Comm comm, Stream stream) = 0;
  [[nodiscard]] virtual Result broadcast(const void* source, void* target, std::size_t count, DType dtype, int root,
                                         Comm comm, Stream stream) = 0;
  /// `count` of the target.
  [[nodiscard]] virtual Result reduce_scatter(const void* source, void* target, std::size_t count, DType dtype,
                                              RedOp op, Comm comm, Stream stream) = 0;
  /// `count` of the source.
  [[nodiscard]] virtual Result all_gather(const void* source, void* target, std::size_t count, DType dtype, Comm comm,
                                          Stream stream) = 0;
  [[nodiscard]] virtual Result send(const void* source, std::size_t count, DType dtype, int peer, Comm comm,
                                    Stream stream) = 0;
  [[nodiscard]] virtual Result recv(void* target, std::size_t count, DType dtype, int peer, Comm comm,
                                    Stream stream) = 0;
};

/// What came of looking for NCCL.
struct Library {
  std::shared_ptr<Api> api;  ///< null where there is none to be used; `why` says why
  int version = 0;
  std::string path;  ///< of the file that it came from
  std::string why;   ///< "NCCL does not open: libnccl.so.2: ...", "... is NCCL 2.17.1; lockstep needs 2.18 or newer"
};

/// The oldest NCCL that is used.
inline constexpr int least_version = 21800;

/// Looks for NCCL: the file that `path` names, or where it is empty what is in the process already, else libnccl.so.2.
/// Never closed again. Thread-safe.
[[nodiscard]] Library open_library(const std::string& path);

}  // namespace lockstep::detail::nccl
