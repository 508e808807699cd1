// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The thread that drives asynchronous operations while no other thread does: one for all communicators of a process.

#pragma once

#include "base/mutex.hpp"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::detail {

class Engine;

/// Thread-safe. An engine is driven from `start` until `leave`. While a step of one engine takes long, such as a sum of
/// large tensors or the end of a GPU's communicator, the operations of the others wait for it.
class ProgressThread {
 public:
  ProgressThread() = default;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  /// No engine is left. A child of fork, in which the thread does not run, leaks this object instead.
  ~ProgressThread() = default;

  /// That of this process, which exists as long as it has owners. Ranks that are threads of one process have one each
  /// instead: a rank may have to wait for another one in a step of its operations.
  [[nodiscard]] static std::shared_ptr<ProgressThread> of_process();

  /// From now on, the thread drives `engine`. Starts the thread if it does not run. Throws Error(unavailable), which
  /// names `engine_name`, if the system has no thread left.
  void start(Engine& engine, const std::string& engine_name);
  /// When this function returns, the thread does not use `engine` and will not use it again.
  void leave(Engine& engine) noexcept;
  /// An engine has got an operation, or its last waiting thread leaves one (Engine::needs_thread). Makes no system call
  /// while the thread looks for work, which it does for some milliseconds after the last work: so a program that makes
  /// one call after another makes no system call for each of them.
  void wake() noexcept;

 private:
  void run(const std::stop_token& stop);
  [[nodiscard]] bool drive_all();
  [[nodiscard]] bool is_needed();
  void rest(const std::stop_token& stop);

  Mutex mutex_;
  std::vector<Engine*> engines_ LOCKSTEP_GUARDED_BY(mutex_);
  Engine* driven_ LOCKSTEP_GUARDED_BY(mutex_) = nullptr;  // the one in which the thread is
  std::condition_variable ends_drive_;
  // A thread that needs this one first says so in its engine and then reads this; the thread first writes this and then
  // looks whether an engine needs it: sequentially consistent, so one of the two sees the other.
  std::atomic<bool> is_resting_{false};
  std::atomic<bool> has_news_{false};  // `wake` was called
  std::condition_variable_any ends_rest_;
  std::jthread thread_;  // started under mutex_
};

}  // namespace lockstep::detail
