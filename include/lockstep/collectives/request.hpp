// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A pending operation.

#pragma once

#include <lockstep/base/chrono.hpp>
#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/base/owned.hpp>

namespace lockstep {

class Error;

/// A pending asynchronous operation. The collectives of one communicator complete in the order in which they were
/// posted; sends and receives complete in any order. Move-only. If a request is destroyed before its operation is
/// complete, the destructor waits for the operation, at most until the communicator's timeout, and logs an error of the
/// operation. Thread-safety: one thread at a time. If MPI provides less than MPI_THREAD_SERIALIZED, only the main
/// thread can wait: on another thread, the functions that wait throw Error(failed_precondition) and leave the request
/// unchanged, unless the operation is complete. The destructor does not wait on another thread, but logs a warning once
/// per communicator: the operation continues in later calls of the main thread on the communicator, at the latest in
/// the destructor of the communicator, and its tensors must stay allocated until it is complete.
class LOCKSTEP_API Request {
 public:
  /// A request without an operation, which is complete.
  Request() noexcept;
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request();

  /// Waits until the operation is complete; then its outputs are written. A second call returns at once.
  /// Throws the error of the operation: mismatch, deadline_exceeded, unavailable. After an error the outputs are
  /// unspecified, and the inputs are unchanged.
  void wait();
  /// Waits at most `duration`, and returns whether the operation is complete. Throws as wait().
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds duration);
  /// Makes `stream` (a cudaStream_t) wait for the operation; the host does not wait. Work that is submitted to the
  /// stream after this call sees the outputs and may overwrite the inputs. The call returns when all earlier operations
  /// are complete and the rest of this operation is enqueued on the GPUs. If the operation is not on GPUs, or does not
  /// use NCCL, it needs the host until its end, so it is complete when the call returns. The request stays valid, and
  /// wait() still reports the result. If the operation fails, the work on `stream` continues with unspecified outputs.
  /// `stream` must not have been destroyed. If `stream` is the handle of a default stream, the default stream of the
  /// thread's current device is used. Throws as wait(). If a CUDA call fails, throws Error(unavailable) with CUDA's
  /// message, and the request is unchanged.
  void wait(void* stream);
  /// Advances the operation without waiting, and returns whether it is complete. Throws as wait().
  [[nodiscard]] bool test();
  /// Calls `callback` once when the operation is complete, with the error that wait() would throw, or with null. So a
  /// program can have many pending operations without a thread that waits for each. After this call the request has no
  /// operation. If it had none before, `callback` is called at once by this thread. Otherwise a thread of the library
  /// calls it; the callbacks of one communicator are called one after another. If the last handle of the communicator
  /// is destroyed first, its destructor waits for the operation and calls `callback`.
  /// `callback` must not throw, and must not destroy the last handle of the communicator. It may make calls on any
  /// communicator, and may wait for operations; meanwhile no other callback of its communicator is called. It is
  /// destroyed after the call, so it can own the tensors of the operation.
  /// Local: returns at once. Throws Error(failed_precondition) if MPI provides less than MPI_THREAD_MULTIPLE; then the
  /// request is unchanged, and `callback` is not called.
  void when_complete(Function<void(const Error* error)> callback);

 private:
  friend class Communicator;
  friend class Plan;
  struct State;
  explicit Request(Owned<State> state) noexcept;
  void finish() noexcept;
  void leave_to_main_thread();

  Owned<State> state_;
};

}  // namespace lockstep
