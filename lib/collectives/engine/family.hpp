// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The communicators of one rank that were made from each other. Each communicator has its own order of operations. If
// two ranks use two communicators in opposite orders, each of the two ranks waits for the other. The family then tells
// the other ranks in which operation this rank waits.

#pragma once

#include "base/mutex.hpp"
#include "collectives/engine/progress_thread.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace lockstep::detail {

class Engine;
struct WaitElsewhere;

/// Thread-safe. The constructor and the destructor of an engine call `join` and `leave`.
class Family {
 public:
  explicit Family(std::shared_ptr<ProgressThread> thread = std::make_shared<ProgressThread>())
      : thread_(std::move(thread)) {}

  /// The thread that drives asynchronous operations of all engines.
  [[nodiscard]] ProgressThread& thread() const noexcept { return *thread_; }

  void join(Engine& engine);
  void leave(Engine& engine) noexcept;
  /// `wait` describes the operation of `waiting` in which this rank waits. Calls Engine::answer of all other engines,
  /// so that the ranks that wait for this rank on those engines get `wait`. Never waits.
  void answer_for(const Engine& waiting, const WaitElsewhere& wait) noexcept;
  /// Whether another engine than `waiting` has operations that are not complete, or another thread is in it or here.
  [[nodiscard]] bool has_work_beside(const Engine& waiting) noexcept;

 private:
  const std::shared_ptr<ProgressThread> thread_;
  Mutex mutex_;
  std::vector<Engine*> engines_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail
