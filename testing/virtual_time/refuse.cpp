// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "virtual_time/refuse.hpp"

#include "virtual_time/real.hpp"
#include "virtual_time/scheduler.hpp"

#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/time.h>
#include <threads.h>
#include <unistd.h>

#include <ctime>
#include <string>

namespace lockstep::virtual_time::detail {

void refuse(const char* function) {
  scheduler().fail((std::string("not replaced, so not to be called in a run: ") + function).c_str());
}

}  // namespace lockstep::virtual_time::detail

using namespace lockstep::virtual_time::detail;

/// Defines NAME, which calls the function of the C library outside of runs.
#define REFUSED(result, name, parameters, arguments, ...)      \
  extern "C" result name parameters __VA_ARGS__ {              \
    static constinit const Real<decltype(::name)> real{#name}; \
    if (active() != nullptr) refuse(#name);                    \
    return real arguments;                                     \
  }

REFUSED(int, pthread_barrier_wait, (pthread_barrier_t * barrier), (barrier), noexcept)
REFUSED(int, pthread_cancel, (pthread_t thread), (thread))
REFUSED(int, sigsuspend, (const sigset_t* set), (set))
REFUSED(int, pause, (), ())
REFUSED(int, msgsnd, (int queue, const void* message, size_t size, int flags), (queue, message, size, flags))
REFUSED(ssize_t, msgrcv, (int queue, void* message, size_t size, long type, int flags),
        (queue, message, size, type, flags))
REFUSED(int, semop, (int set, sembuf* operations, size_t count), (set, operations, count), noexcept)
REFUSED(int, semtimedop, (int set, sembuf* operations, size_t count, const timespec* timeout),
        (set, operations, count, timeout), noexcept)
REFUSED(int, thrd_join, (thrd_t thread, int* result), (thread, result))
REFUSED(int, thrd_sleep, (const timespec* duration, timespec* rest), (duration, rest))
REFUSED(int, mtx_lock, (mtx_t * mutex), (mutex))
REFUSED(int, mtx_timedlock, (mtx_t * mutex, const timespec* time), (mutex, time))
REFUSED(int, cnd_wait, (cnd_t * condition, mtx_t* mutex), (condition, mutex))
REFUSED(int, cnd_timedwait, (cnd_t * condition, mtx_t* mutex, const timespec* time), (condition, mutex, time))
REFUSED(int, timer_settime, (timer_t timer, int flags, const itimerspec* time, itimerspec* former),
        (timer, flags, time, former), noexcept)
