// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A pending operation.

#pragma once

#include <lockstep/base/export.hpp>

#include <chrono>
#include <memory>

namespace lockstep {
/// Completion of one asynchronous operation. Collectives of one communicator complete in the order in which they were
/// posted; sends and receives complete in any order. Move-only. Destroying a request that is not complete waits for it,
/// bounded by the communicator's deadline, and logs its error. Thread-safety: one thread at a time.
class LOCKSTEP_API Request {
 public:
  /// A request that is complete.
  Request() noexcept;
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request();

  /// Waits until the operation is complete; its outputs are then written. A second call returns at once.
  /// Throws the operation's error: mismatch, deadline_exceeded, unavailable. The outputs are then unspecified, the
  /// inputs unchanged.
  void wait();
  /// Waits at most `duration`, and returns whether the operation is complete. Throws as wait().
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds duration);
  /// Makes `stream`, a cudaStream_t, wait for the operation instead of the host: later work on the stream sees the
  /// outputs and may overwrite the inputs. Returns when the rest of the operation is enqueued on the GPUs, which
  /// requires that all earlier operations are complete. An operation that needs the host until its end, because it is
  /// not on GPUs or does not use NCCL, is complete on return. The request stays valid: wait() still reports the result.
  /// If the operation fails, the work on `stream` continues with unspecified outputs. `stream` must not be destroyed; a
  /// default stream is that of the thread's current device. Throws as wait(), and Error(unavailable) with CUDA's
  /// message if a CUDA call fails; the request is then unchanged.
  void wait(void* stream);
  /// Advances the operation without waiting, and returns whether it is complete. Throws as wait().
  [[nodiscard]] bool test();

 private:
  friend class Communicator;
  friend class Plan;
  struct State;
  explicit Request(std::unique_ptr<State> state) noexcept;
  void finish() noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace lockstep
