// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/signals.hpp"

#include <pthread.h>

#include <initializer_list>

namespace lockstep::detail {

sigset_t outside_signals() noexcept {
  sigset_t set;
  ::sigfillset(&set);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGXFSZ, SIGPIPE, SIGPROF})
    ::sigdelset(&set, signal);
  return set;
}

SignalsBlocked::SignalsBlocked() noexcept {
  const sigset_t blocked = outside_signals();
  ::pthread_sigmask(SIG_BLOCK, &blocked, &former_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

}  // namespace lockstep::detail
