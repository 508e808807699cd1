// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A mutex that clang's thread-safety analysis (-Wthread-safety) understands, and the annotations that say which data a
// mutex guards: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html. Other compilers ignore the annotations.

#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__has_attribute) && __has_attribute(capability)
#define LOCKSTEP_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define LOCKSTEP_THREAD_ANNOTATION(x)
#endif

/// A member that is read and written only while `mutex` is held.
#define LOCKSTEP_GUARDED_BY(mutex) LOCKSTEP_THREAD_ANNOTATION(guarded_by(mutex))
/// A pointer whose target is read and written only while `mutex` is held.
#define LOCKSTEP_PT_GUARDED_BY(mutex) LOCKSTEP_THREAD_ANNOTATION(pt_guarded_by(mutex))
/// A function that is called only while `mutex` is held.
#define LOCKSTEP_REQUIRES(...) LOCKSTEP_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// A function that takes `mutex` itself, and is called only while it is not held.
#define LOCKSTEP_EXCLUDES(...) LOCKSTEP_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// A function that the analysis cannot follow. Each use of this macro has a comment with the reason.
#define LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS LOCKSTEP_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace lockstep::detail {

class LOCKSTEP_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() LOCKSTEP_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() LOCKSTEP_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() LOCKSTEP_THREAD_ANNOTATION(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a mutex from its construction to the end of its scope, except between `unlock` and `lock`.
class LOCKSTEP_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LOCKSTEP_THREAD_ANNOTATION(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~MutexLock() LOCKSTEP_THREAD_ANNOTATION(release_capability()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() LOCKSTEP_THREAD_ANNOTATION(acquire_capability()) { lock_.lock(); }
  void unlock() LOCKSTEP_THREAD_ANNOTATION(release_capability()) { lock_.unlock(); }

  /// Releases the mutex, waits for a notification (or wakes up spuriously), and takes the mutex again. The caller tests
  /// its condition in a loop, because the analysis does not look into a predicate that is passed as a lambda.
  void wait(std::condition_variable& condition) { condition.wait(lock_); }
  /// Waits as `wait` does, but at most until `deadline`. Returns false after a timeout.
  template <class TimePoint>
  bool wait_until(std::condition_variable& condition, const TimePoint& deadline) {
    return condition.wait_until(lock_, deadline) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace lockstep::detail
