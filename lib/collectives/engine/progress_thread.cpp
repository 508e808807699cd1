// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/progress_thread.hpp"

#include "base/pause.hpp"
#include "base/start_thread.hpp"
#include "collectives/call/backoff.hpp"
#include "collectives/engine/engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace lockstep::detail {

std::shared_ptr<ProgressThread> ProgressThread::of_process() {
  static constinit Mutex mutex;
  static constinit std::weak_ptr<ProgressThread> known;
  const MutexLock lock(mutex);
  std::shared_ptr<ProgressThread> found = known.lock();
  if (found == nullptr) known = found = std::make_shared<ProgressThread>();
  return found;
}

void ProgressThread::start(Engine& engine, const std::string& engine_name) {
  const MutexLock lock(mutex_);
  engines_.push_back(&engine);
  if (thread_.joinable()) return;
  try {
    const std::string thread = engine_name + ": the thread that advances asynchronous operations";
    thread_ =
        start_thread<std::jthread>({thread, "use blocking calls"}, [this](const std::stop_token& stop) { run(stop); });
  } catch (...) {
    engines_.pop_back();
    throw;
  }
}

void ProgressThread::leave(Engine& engine) noexcept {
  MutexLock lock(mutex_);
  std::erase(engines_, &engine);
  while (driven_ == &engine) lock.wait(ends_drive_);
}

void ProgressThread::wake() noexcept {
  has_news_.store(true, std::memory_order_relaxed);
  if (!is_resting_.load() || !is_resting_.exchange(false)) return;
  { const MutexLock lock(mutex_); }  // the thread may just be about to wait
  ends_rest_.notify_one();
}

void ProgressThread::run(const std::stop_token& stop) {
  constexpr int looks = 50;  // number of times without work before the thread rests
  constexpr auto look_time = std::chrono::microseconds(100);
  Backoff backoff(0);
  for (int idle = 0; !stop.stop_requested();) {
    if (drive_all()) {
      idle = 0;
      if (has_news_.load(std::memory_order_relaxed)) {
        has_news_.store(false, std::memory_order_relaxed);
        backoff = Backoff(0);
      }
      backoff.pause_in_background();
      continue;
    }
    backoff = Backoff(0);
    if (++idle <= looks) {  // a short operation that is posted now is completed by the thread that waits for it
      sleep_briefly(look_time, static_cast<std::uint32_t>(idle));
    } else {
      rest(stop);
      idle = 0;
    }
  }
}

/// Drives each engine that needs it once. Returns whether there was any.
bool ProgressThread::drive_all() {
  bool has_driven = false;
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < engines_.size(); ++i) {  // others may come and leave meanwhile
    Engine* const engine = engines_[i];
    if (!engine->needs_thread()) continue;
    driven_ = engine;
    lock.unlock();
    engine->drive_by_thread();
    lock.lock();
    driven_ = nullptr;
    ends_drive_.notify_all();
    has_driven = true;
  }
  return has_driven;
}

bool ProgressThread::is_needed() {
  const MutexLock lock(mutex_);
  return std::any_of(engines_.begin(), engines_.end(), [](const Engine* engine) { return engine->needs_thread(); });
}

void ProgressThread::rest(const std::stop_token& stop) {
  is_resting_.store(true);
  if (!is_needed()) {
    MutexLock lock(mutex_);
    ends_rest_.wait(lock, stop, [this] { return !is_resting_.load(); });
  }
  is_resting_.store(false);
}

}  // namespace lockstep::detail
