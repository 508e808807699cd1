// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A collective operation under way.

#pragma once

#include <lockstep/base/export.hpp>

#include <chrono>
#include <memory>

namespace lockstep {
/// Completion of one asynchronous operation. Collectives of one communicator complete in the order in which they were
/// posted, sends and receives in any. Move-only. Destroying a request that is not complete waits for it, bounded by the
/// communicator's deadline, and logs its error. Thread-safety: one thread at a time.
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
  /// Waits at most `duration`; whether the operation is complete. Throws as wait().
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds duration);
  /// Lets `stream`, a cudaStream_t, wait for the operation in place of the host: what comes later on it sees the
  /// outputs, and finds the inputs free. Returns when what is left of the operation is on the GPUs, so those before it
  /// must be complete; an operation that needs the host to its end, since it is not on GPUs or not through NCCL, is
  /// complete then. The request stays: what comes of the operation is known after wait(), and when it fails, what is on
  /// `stream` goes on with unspecified outputs. `stream` is one that lives; a default stream is that of the thread's
  /// current device. Throws as wait(), and Error(unavailable) with CUDA's words when CUDA refuses; the request is as
  /// before then.
  void wait(void* stream);
  /// Advances the operation without waiting; whether it is complete. Throws as wait().
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
