// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Mutexes, reader-writer locks, spin locks, semaphores and `once`. The objects of the C library stay in use: a wait is
// a loop of attempts that do not block, between which the thread is blocked in the scheduler.

#include "virtual_time/locks.hpp"
#include "virtual_time/observer.hpp"
#include "virtual_time/real.hpp"
#include "virtual_time/times.hpp"

#include <pthread.h>
#include <semaphore.h>

#include <cerrno>

using namespace lockstep::virtual_time::detail;

namespace {

VIRTUAL_TIME_REAL(pthread_mutex_lock);
VIRTUAL_TIME_REAL(pthread_mutex_trylock);
VIRTUAL_TIME_REAL(pthread_mutex_timedlock);
VIRTUAL_TIME_REAL(pthread_mutex_clocklock);
VIRTUAL_TIME_REAL(pthread_mutex_unlock);
VIRTUAL_TIME_REAL(pthread_rwlock_rdlock);
VIRTUAL_TIME_REAL(pthread_rwlock_wrlock);
VIRTUAL_TIME_REAL(pthread_rwlock_tryrdlock);
VIRTUAL_TIME_REAL(pthread_rwlock_trywrlock);
VIRTUAL_TIME_REAL(pthread_rwlock_timedrdlock);
VIRTUAL_TIME_REAL(pthread_rwlock_timedwrlock);
VIRTUAL_TIME_REAL(pthread_rwlock_clockrdlock);
VIRTUAL_TIME_REAL(pthread_rwlock_clockwrlock);
VIRTUAL_TIME_REAL(pthread_rwlock_unlock);
VIRTUAL_TIME_REAL(pthread_spin_lock);
VIRTUAL_TIME_REAL(pthread_spin_trylock);
VIRTUAL_TIME_REAL(pthread_spin_unlock);
VIRTUAL_TIME_REAL(sem_wait);
VIRTUAL_TIME_REAL(sem_trywait);
VIRTUAL_TIME_REAL(sem_timedwait);
VIRTUAL_TIME_REAL(sem_clockwait);
VIRTUAL_TIME_REAL(sem_post);
VIRTUAL_TIME_REAL(pthread_once);

int observed(const void* object, int result) {
  if (result == 0) observe_acquired(object);
  return result;
}

/// Repeats `attempt` until it does not return EBUSY.
template <class Attempt>
int repeat(Scheduler& run, const void* object, Time deadline, const Attempt& attempt) {
  for (;;) {
    const int result = attempt();
    if (result != EBUSY) return observed(object, result);
    if (!run.block(object, deadline)) {
      const int last = attempt();
      return last == EBUSY ? ETIMEDOUT : observed(object, last);
    }
  }
}

/// The attempt to lock `mutex`.
auto locking(Scheduler& run, pthread_mutex_t* mutex) {
  return [&run, mutex] {
    const int result = real_pthread_mutex_trylock(mutex);
    if (result == EBUSY) run.lend(mutex, mutex->__data.__owner);
    return result;
  };
}

int wait_for(Scheduler& run, sem_t* semaphore, Time deadline) {
  const int result = repeat(run, semaphore, deadline, [semaphore] {
    if (real_sem_trywait(semaphore) == 0) return 0;
    return errno == EAGAIN ? EBUSY : errno;
  });
  if (result == 0) return 0;
  errno = result;
  return -1;
}

/// The calls of pthread_once that run their routine.
class OnceInProgress {
 public:
  explicit OnceInProgress(Scheduler& run, const pthread_once_t* control) : run_(run), control_(control), next_(first_) {
    first_ = this;
  }
  ~OnceInProgress() {
    OnceInProgress** link = &first_;
    while (*link != this) link = &(*link)->next_;
    *link = next_;
    run_.wake(control_);
  }
  OnceInProgress(const OnceInProgress&) = delete;
  OnceInProgress& operator=(const OnceInProgress&) = delete;

  [[nodiscard]] static bool is_known(const pthread_once_t* control) {
    for (const OnceInProgress* each = first_; each != nullptr; each = each->next_) {
      if (each->control_ == control) return true;
    }
    return false;
  }

 private:
  static constinit OnceInProgress* first_;
  Scheduler& run_;
  const pthread_once_t* control_;
  OnceInProgress* next_;
};
constinit OnceInProgress* OnceInProgress::first_ = nullptr;

}  // namespace

namespace lockstep::virtual_time::detail {

int unlock(pthread_mutex_t* mutex) noexcept {
  observe_release(mutex);
  const int result = real_pthread_mutex_unlock(mutex);
  if (Scheduler* const run = active()) run->wake(mutex, 1);
  return result;
}

}  // namespace lockstep::virtual_time::detail

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_mutex_lock(mutex);
  run->delay();
  return repeat(*run, mutex, never, locking(*run, mutex));
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* time) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_mutex_timedlock(mutex, time);
  return repeat(*run, mutex, deadline_of(CLOCK_REALTIME, time), locking(*run, mutex));
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* time) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_mutex_clocklock(mutex, clock, time);
  return repeat(*run, mutex, deadline_of(clock, time), locking(*run, mutex));
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  return observed(mutex, real_pthread_mutex_trylock(mutex));
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  const int result = unlock(mutex);
  if (Scheduler* const run = active()) {
    run->take_back(mutex);
    run->delay();
  }
  return result;
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_rwlock_rdlock(lock);
  return repeat(*run, lock, never, [lock] { return real_pthread_rwlock_tryrdlock(lock); });
}

int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_rwlock_wrlock(lock);
  return repeat(*run, lock, never, [lock] { return real_pthread_rwlock_trywrlock(lock); });
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock, const timespec* time) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_rwlock_timedrdlock(lock, time);
  return repeat(*run, lock, deadline_of(CLOCK_REALTIME, time), [lock] { return real_pthread_rwlock_tryrdlock(lock); });
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock, const timespec* time) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_rwlock_timedwrlock(lock, time);
  return repeat(*run, lock, deadline_of(CLOCK_REALTIME, time), [lock] { return real_pthread_rwlock_trywrlock(lock); });
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock, const timespec* time) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_rwlock_clockrdlock(lock, clock, time);
  return repeat(*run, lock, deadline_of(clock, time), [lock] { return real_pthread_rwlock_tryrdlock(lock); });
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock, const timespec* time) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_rwlock_clockwrlock(lock, clock, time);
  return repeat(*run, lock, deadline_of(clock, time), [lock] { return real_pthread_rwlock_trywrlock(lock); });
}

int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept {
  return observed(lock, real_pthread_rwlock_tryrdlock(lock));
}

int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept {
  return observed(lock, real_pthread_rwlock_trywrlock(lock));
}

int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  observe_release(lock);
  const int result = real_pthread_rwlock_unlock(lock);
  if (Scheduler* const run = active()) run->wake(lock);
  return result;
}

int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_spin_lock(lock);
  while (real_pthread_spin_trylock(lock) == EBUSY) run->pause(Scheduler::Pause::yield, 0);
  return observed(const_cast<const int*>(lock), 0);
}

int pthread_spin_trylock(pthread_spinlock_t* lock) noexcept {
  return observed(const_cast<const int*>(lock), real_pthread_spin_trylock(lock));
}

int pthread_spin_unlock(pthread_spinlock_t* lock) noexcept {
  observe_release(const_cast<const int*>(lock));
  return real_pthread_spin_unlock(lock);
}

int sem_wait(sem_t* semaphore) {
  Scheduler* const run = active();
  return run == nullptr ? real_sem_wait(semaphore) : wait_for(*run, semaphore, never);
}

int sem_timedwait(sem_t* semaphore, const timespec* time) {
  Scheduler* const run = active();
  if (run == nullptr) return real_sem_timedwait(semaphore, time);
  return wait_for(*run, semaphore, deadline_of(CLOCK_REALTIME, time));
}

int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* time) {
  Scheduler* const run = active();
  if (run == nullptr) return real_sem_clockwait(semaphore, clock, time);
  return wait_for(*run, semaphore, deadline_of(clock, time));
}

int sem_trywait(sem_t* semaphore) noexcept { return observed(semaphore, real_sem_trywait(semaphore)); }

int sem_post(sem_t* semaphore) noexcept {
  observe_release(semaphore);
  const int result = real_sem_post(semaphore);
  if (Scheduler* const run = active()) run->wake(semaphore, 1);
  return result;
}

int pthread_once(pthread_once_t* control, void (*routine)()) {
  Scheduler* const run = active();
  if (run == nullptr) return real_pthread_once(control, routine);
  while (OnceInProgress::is_known(control)) run->block(control);
  const OnceInProgress mark(*run, control);
  const int result = real_pthread_once(control, routine);
  observe_acquired(control);
  observe_release(control);
  return result;
}

}  // extern "C"
