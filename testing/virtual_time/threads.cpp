// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Creation, end and joining of threads.

#include "virtual_time/threads.hpp"
#include "virtual_time/observer.hpp"
#include "virtual_time/real.hpp"
#include "virtual_time/shortages.hpp"
#include "virtual_time/times.hpp"

#include <pthread.h>

#include <cerrno>
#include <climits>

using namespace lockstep::virtual_time::detail;

namespace {

VIRTUAL_TIME_REAL(pthread_create);
VIRTUAL_TIME_REAL(pthread_join);
VIRTUAL_TIME_REAL(pthread_tryjoin_np);
VIRTUAL_TIME_REAL(pthread_timedjoin_np);
VIRTUAL_TIME_REAL(pthread_clockjoin_np);
VIRTUAL_TIME_REAL(pthread_detach);

pthread_key_t key_of_threads;

/// A thread leaves the run after its thread-local objects and the other keys' values have been destroyed: in the last
/// of the rounds in which the C library calls the destructors of keys.
void leave_in_last_round(void* value) {
  auto* const thread = static_cast<Thread*>(value);
  if (++thread->exit_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(key_of_threads, thread);
  } else {
    scheduler().leave(thread);
  }
}

void* run_thread(void* argument) {
  auto* const thread = static_cast<Thread*>(argument);
  pthread_setspecific(key_of_threads, thread);
  scheduler().enter(thread);
  return thread->start(thread->argument);
}

int join(Scheduler& run, pthread_t handle, void** result, Time deadline) {
  Thread* const thread = run.find_thread(handle);
  if (thread == nullptr) return real_pthread_join(handle, result);  // of no run
  if (thread == self) return EDEADLK;
  while (thread->state != State::ended) {
    if (!run.block(thread, deadline) && thread->state != State::ended) return ETIMEDOUT;
  }
  const int joined = real_pthread_join(handle, result);  // for the rest of the thread's exit, which waits for nothing
  if (observer != nullptr) observer->has_joined(thread->number);
  run.remove_thread(thread);
  return joined;
}

}  // namespace

namespace lockstep::virtual_time::detail {

void prepare_threads() {
  static const int created = pthread_key_create(&key_of_threads, leave_in_last_round);
  static_cast<void>(created);
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    if (Scheduler* const run = active()) run->forget_others();
  });
  static_cast<void>(registered);
}

int create_outside_of_runs(pthread_t* handle, void* (*start)(void*), void* argument) {
  return real_pthread_create(handle, nullptr, start, argument);
}

}  // namespace lockstep::virtual_time::detail

extern "C" {

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_create(handle, attributes, start, argument);
  if (lockstep::virtual_time::shortages != nullptr) {
    if (const int error = lockstep::virtual_time::shortages->at_thread()) return error;
  }
  Thread* const thread = run->add_thread();
  if (thread == nullptr) return EAGAIN;
  int detach_state = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) pthread_attr_getdetachstate(attributes, &detach_state);
  thread->start = start;
  thread->argument = argument;
  thread->is_detached = detach_state == PTHREAD_CREATE_DETACHED;
  const int created = real_pthread_create(&thread->handle, attributes, run_thread, thread);
  if (created != 0) {
    run->remove_thread(thread);
    return created;
  }
  *handle = thread->handle;
  if (observer != nullptr) observer->has_created(thread->number);
  run->started(thread);
  return 0;
}

int pthread_join(pthread_t handle, void** result) {
  Scheduler* const run = active();
  return run == nullptr ? real_pthread_join(handle, result) : join(*run, handle, result, never);
}

int pthread_tryjoin_np(pthread_t handle, void** result) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_tryjoin_np(handle, result);
  const Thread* const thread = run->find_thread(handle);
  if (thread != nullptr && thread->state != State::ended) return EBUSY;
  return join(*run, handle, result, never);
}

int pthread_timedjoin_np(pthread_t handle, void** result, const timespec* time) {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_timedjoin_np(handle, result, time);
  return join(*run, handle, result, deadline_of(CLOCK_REALTIME, time));
}

int pthread_clockjoin_np(pthread_t handle, void** result, clockid_t clock, const timespec* time) {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_clockjoin_np(handle, result, clock, time);
  return join(*run, handle, result, deadline_of(clock, time));
}

int pthread_detach(pthread_t handle) noexcept {
  const int result = real_pthread_detach(handle);
  Scheduler* const run = active();
  Thread* const thread = run == nullptr || result != 0 ? nullptr : run->find_thread(handle);
  if (thread != nullptr) {
    thread->is_detached = true;
    if (thread->state == State::ended) run->remove_thread(thread);
  }
  return result;
}

}  // extern "C"
