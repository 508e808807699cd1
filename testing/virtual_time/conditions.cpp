// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Conditions. The waiting threads are known to the scheduler alone.

#include "virtual_time/locks.hpp"
#include "virtual_time/real.hpp"
#include "virtual_time/times.hpp"

#include <pthread.h>

#include <cerrno>

using namespace lockstep::virtual_time::detail;

namespace {

// On x86-64, the symbols without a version in front of these are of an earlier implementation.
#define CONDITION(name) constinit const Real<decltype(::name)> real_##name{#name, "GLIBC_2.3.2"}
CONDITION(pthread_cond_wait);
CONDITION(pthread_cond_timedwait);
CONDITION(pthread_cond_signal);
CONDITION(pthread_cond_broadcast);
VIRTUAL_TIME_REAL(pthread_cond_clockwait);

int wait_for(Scheduler& run, pthread_cond_t* condition, pthread_mutex_t* mutex, Time deadline) {
  const int unlocked = unlock(mutex);  // keeps its turn, so that no signal is lost in between
  if (unlocked != 0) return unlocked;
  if (self->lent == mutex) self->lent = nullptr;
  const bool is_woken = run.block(condition, deadline);
  const int locked = pthread_mutex_lock(mutex);
  if (locked != 0) return locked;
  return is_woken ? 0 : ETIMEDOUT;
}

/// The clock of pthread_cond_timedwait; glibc notes it in this bit of the condition.
clockid_t clock_of(const pthread_cond_t& condition) {
  return (condition.__data.__wrefs & 2U) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

}  // namespace

extern "C" {

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_cond_wait(condition, mutex);
  return wait_for(*run, condition, mutex, never);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* time) {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_cond_timedwait(condition, mutex, time);
  return wait_for(*run, condition, mutex, deadline_of(clock_of(*condition), time));
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* time) {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_cond_clockwait(condition, mutex, clock, time);
  return wait_for(*run, condition, mutex, deadline_of(clock, time));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_cond_signal(condition);
  run->wake(condition, 1);
  run->delay();
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_cond_broadcast(condition);
  run->wake(condition);
  run->delay();
  return 0;
}

}  // extern "C"
