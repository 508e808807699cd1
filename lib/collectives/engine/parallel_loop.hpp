// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A work-sharing loop: the thread that runs the loop and idle threads execute its iterations, called turns. So the
// threads of replicas that wait for the end of a collective share the work of that collective.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace lockstep::detail {

/// Runs one loop at a time, with any number of helping threads.
class ParallelLoop {
 public:
  /// `threads`: how many threads can execute turns at the same time. `wake` makes waiting threads check `is_open`.
  ParallelLoop(int threads, std::function<void()> wake) : threads_(threads), wake_(std::move(wake)) {}
  ParallelLoop(const ParallelLoop&) = delete;
  ParallelLoop& operator=(const ParallelLoop&) = delete;

  [[nodiscard]] int threads() const noexcept { return threads_; }

  /// Calls `body(turn)` once for every turn in [0, turns), each on some thread. Returns when all turns are done. `body`
  /// must not throw.
  template <class Body>
  void run(std::uint32_t turns, const Body& body) {
    run_turns(turns, &body, [](const void* object, std::uint32_t turn) { (*static_cast<const Body*>(object))(turn); });
  }

  /// Whether there are turns that no thread has begun. Thread-safe.
  [[nodiscard]] bool is_open() const noexcept;
  /// Executes turns until no turn is left to begin. Thread-safe.
  void help() noexcept;

 private:
  using Call = void (*)(const void* object, std::uint32_t turn);
  void run_turns(std::uint32_t turns, const void* object, Call call);

  const int threads_;
  const std::function<void()> wake_;
  // The number of the loop (upper half) and its next turn (lower half). A thread begins a turn by a compare-exchange of
  // this word, which fails if the loop is over. The thread reads the members below before the compare-exchange, and
  // uses their values only if the compare-exchange succeeds.
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint32_t> turns_{0};
  std::atomic<const void*> object_{nullptr};
  std::atomic<Call> call_{nullptr};
  alignas(64) std::atomic<std::uint32_t> done_{0};
};

}  // namespace lockstep::detail
