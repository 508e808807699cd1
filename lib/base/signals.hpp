// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Keeps signal handlers away from threads that compute. The kernel runs a handler on the stack of the thread that it
// interrupts, and code that stores data further below the stack pointer than the ABI's red zone loses it: oneDNN 2.6's
// sgemm does so.

#pragma once

#include <signal.h>

namespace lockstep::detail {

/// The signals that the process receives from outside: all but those that report an error of the running thread
/// (SIGSEGV, SIGFPE, ...) and SIGPROF, with which profilers sample every thread.
[[nodiscard]] sigset_t outside_signals() noexcept;

/// Blocks outside_signals on the calling thread, and restores its mask in the destructor. Threads that are started in
/// between inherit the mask and keep it: every thread of the library is started so.
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
