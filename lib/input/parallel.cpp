// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/parallel.hpp"
#include "base/mutex.hpp"
#include "base/start_thread.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::input {
namespace {

constexpr detail::ThreadPurpose thread_of_map{"map: a thread of num_parallel_calls", "use fewer parallel calls"};

class ParallelCursor final : public WholeCursor {
 public:
  ParallelCursor(NextJob next, int threads, std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)), next_(std::move(next)), slots_(2 * static_cast<std::size_t>(threads)) {
    threads_.reserve(static_cast<std::size_t>(threads));  // so that no allocation follows the start of a thread
    try {
      for (int i = 0; i < threads; ++i) threads_.push_back(detail::start_thread(thread_of_map, [this] { work(); }));
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ParallelCursor() override { stop(); }

  bool advance() override {
    detail::MutexLock lock(mutex_);
    Slot& slot = slots_[given_ % slots_.size()];
    while (slot.state == State::empty) lock.wait(ready_);
    if (slot.state == State::end) {
      if (slot.error) std::rethrow_exception(std::exchange(slot.error, nullptr));
      return false;
    }
    slot.state = State::empty;
    ++given_;
    present_ = std::move(slot.element);
    full_rows_ = rows_.next(slot.before, present_);
    const std::exception_ptr error = std::exchange(slot.error, nullptr);
    lock.unlock();
    not_full_.notify_one();
    if (error) std::rethrow_exception(error);
    return true;
  }

 private:
  enum class State { empty, made, end };
  struct Slot {
    State state = State::empty;
    Leaves element;
    RowsBefore before;
    std::exception_ptr error;
  };

  void work() noexcept {
    for (;;) {
      detail::MutexLock lock(mutex_);
      while (!stopped_ && (is_taking_ || taken_ >= given_ + slots_.size())) lock.wait(not_full_);
      if (stopped_) return;
      is_taking_ = true;
      Slot& slot = slots_[taken_++ % slots_.size()];
      lock.unlock();
      if (!take_and_make(slot)) return;
    }
  }
  /// Takes a job, runs it, and stores the result in `slot`. Returns whether there was a job.
  bool take_and_make(Slot& slot) noexcept {
    Slot result{.state = State::made};
    std::optional<Job> job;
    try {
      job = next_();
    } catch (...) {
      result.error = std::current_exception();
    }
    {
      const detail::MutexLock lock(mutex_);
      is_taking_ = false;
      if (!job) stopped_ = true;
    }
    if (job) {
      not_full_.notify_one();
      make(*job, result);
    } else {
      not_full_.notify_all();
      result.state = State::end;
    }
    {
      const detail::MutexLock lock(mutex_);
      slot = std::move(result);
    }
    ready_.notify_one();
    return job.has_value();
  }
  static void make(const Job& job, Slot& result) noexcept {
    try {
      job.make(result.element);
      result.before = job.before;
    } catch (...) {
      result.error = std::current_exception();
    }
  }
  void stop() noexcept {
    {
      const detail::MutexLock lock(mutex_);
      stopped_ = true;
    }
    not_full_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const NextJob next_;  // called only by the thread that has set is_taking_
  RowsAfterMap rows_;   // used by the consumer only

  detail::Mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable not_full_;
  std::vector<Slot> slots_ LOCKSTEP_GUARDED_BY(mutex_);  // element i is in slot i mod size
  std::uint64_t taken_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // number of jobs taken
  std::uint64_t given_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // number of elements returned
  bool is_taking_ LOCKSTEP_GUARDED_BY(mutex_) = false;   // whether a thread is calling next_
  bool stopped_ LOCKSTEP_GUARDED_BY(mutex_) = false;     // no further job is taken

  std::vector<std::thread> threads_;  // last, so that the other members exist when the threads start
};

}  // namespace

std::unique_ptr<Cursor> parallel_cursor(NextJob next, int threads, std::shared_ptr<MemoryResource> memory) {
  return std::make_unique<ParallelCursor>(std::move(next), threads, std::move(memory));
}

void in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& make) {
  std::atomic<std::size_t> next{0};
  detail::Mutex mutex;  // guards `failed` and `error`; clang's annotations cannot state this for local variables
  std::size_t failed = std::numeric_limits<std::size_t>::max();
  std::exception_ptr error;
  const auto work = [&]() noexcept {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        make(i);
      } catch (...) {
        const detail::MutexLock lock(mutex);
        if (i < failed) error = std::current_exception();
        failed = std::min(failed, i);
        next = count;  // no further calls; all calls with a lower index have already begun
      }
    }
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(threads));  // so that no allocation follows the start of a thread
  const auto join = [&] {
    for (std::thread& thread : others) thread.join();
  };
  try {
    const std::size_t useful = std::min(static_cast<std::size_t>(threads), count);
    for (std::size_t i = 1; i < useful; ++i) others.push_back(detail::start_thread(thread_of_map, work));
  } catch (...) {
    next = count;
    join();
    throw;
  }
  work();
  join();
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep::input
