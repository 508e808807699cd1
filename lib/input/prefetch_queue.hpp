// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread that produces items ahead of one consumer.

#pragma once

#include "base/mutex.hpp"
#include "base/start_thread.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace lockstep::input {

/// Calls `produce` on a background thread until `produce` returns false or throws, at most `depth` items ahead of
/// `pop`. The destructor waits only for a running call of `produce`.
template <class Item>
class PrefetchQueue {
 public:
  using Produce = std::function<bool(Item& item)>;

  PrefetchQueue(std::size_t depth, Produce produce) : depth_(depth), produce_(std::move(produce)) {
    thread_ = detail::start_thread({"prefetch: the thread that reads ahead", "do not prefetch"}, [this] { run(); });
  }
  PrefetchQueue(const PrefetchQueue&) = delete;
  PrefetchQueue& operator=(const PrefetchQueue&) = delete;
  ~PrefetchQueue() {
    {
      const detail::MutexLock lock(mutex_);
      stopped_ = true;
    }
    not_full_.notify_one();
    thread_.join();
  }

  /// Stores the next item in `item`. Returns false at the end, and in every later call. If `produce` throws, rethrows
  /// the exception once, in place of the item.
  [[nodiscard]] bool pop(Item& item) {
    detail::MutexLock lock(mutex_);
    if (items_.empty() && !ended_) {
      const auto start = std::chrono::steady_clock::now();
      while (items_.empty() && !ended_) lock.wait(not_empty_);
      waited_ += std::chrono::steady_clock::now() - start;
    }
    if (items_.empty()) {
      if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
      return false;
    }
    item = std::move(items_.front());
    items_.pop_front();
    // waking the thread can cost more than producing an item, so the thread is woken once for several items
    const bool is_low = items_.size() == depth_ / 2;
    lock.unlock();
    if (is_low) not_full_.notify_one();
    return true;
  }

  /// Time that `pop` has waited. Call `waited` on the consumer's thread.
  [[nodiscard]] std::chrono::steady_clock::duration waited() const noexcept { return waited_; }

 private:
  void run() noexcept {
    for (;;) {
      std::exception_ptr error;
      Item item{};
      bool more = false;
      try {
        more = produce_(item);
      } catch (...) {
        error = std::current_exception();
      }
      detail::MutexLock lock(mutex_);
      if (more) {
        try {
          items_.push_back(std::move(item));
        } catch (...) {  // out of memory
          error = std::current_exception();
          more = false;
        }
      }
      if (!more) {
        error_ = std::move(error);
        ended_ = true;
      }
      not_empty_.notify_one();
      if (ended_) return;
      if (items_.size() >= depth_) {
        while (items_.size() > depth_ / 2 && !stopped_) lock.wait(not_full_);
      }
      if (stopped_) return;
    }
  }

  const std::size_t depth_;
  const Produce produce_;                         // called by thread_ only
  std::chrono::steady_clock::duration waited_{};  // used by the consumer only

  detail::Mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::deque<Item> items_ LOCKSTEP_GUARDED_BY(mutex_);
  std::exception_ptr error_ LOCKSTEP_GUARDED_BY(mutex_);
  bool ended_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool stopped_ LOCKSTEP_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace lockstep::input
