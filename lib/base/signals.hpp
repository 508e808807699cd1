// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Keeps signal handlers away from threads that compute. The kernel runs a handler on the stack of the thread that it
// interrupts. The ABI protects only the red zone, some bytes below the stack pointer. Code that stores data further
// below loses this data when a handler runs; sgemm of oneDNN 2.6 is such code.

#pragma once

#include <signal.h>

namespace lockstep::detail {

/// The signals that the process receives from outside. Two kinds of signals are excluded: those that report an error of
/// the running thread (SIGSEGV, SIGFPE, ...), and SIGPROF, with which profilers sample every thread.
[[nodiscard]] sigset_t outside_signals() noexcept;

/// Blocks outside_signals on the calling thread; the destructor restores the thread's signal mask. A thread that is
/// started while this object exists inherits the mask and keeps it. Every thread of the library is started in this way.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked();

 private:
  sigset_t former_{};
};

}  // namespace lockstep::detail
