// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A work-sharing loop: its turns are taken by the thread that runs it and by idle threads. The replicas of a rank that
// wait for the end of a collective share its work.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace lockstep::detail {

/// One loop at a time; any number of helpers.
class ParallelLoop {
 public:
  /// `wake` makes waiting threads look at `is_open`. `threads` is the number that can take turns at the same time.
  ParallelLoop(int threads, std::function<void()> wake) : threads_(threads), wake_(std::move(wake)) {}
  ParallelLoop(const ParallelLoop&) = delete;
  ParallelLoop& operator=(const ParallelLoop&) = delete;

  [[nodiscard]] int threads() const noexcept { return threads_; }

  /// `body(turn)` for every turn in [0, turns), once each, on some thread; returns when all are done. `body` does not
  /// throw.
  template <class Body>
  void run(std::uint32_t turns, const Body& body) {
    run_turns(turns, &body, [](const void* object, std::uint32_t turn) { (*static_cast<const Body*>(object))(turn); });
  }

  /// Whether there are turns that no thread has taken. Thread-safe, as `help` is.
  [[nodiscard]] bool is_open() const noexcept;
  /// Takes turns as long as there are any.
  void help() noexcept;

 private:
  using Call = void (*)(const void* object, std::uint32_t turn);
  void run_turns(std::uint32_t turns, const void* object, Call call);

  const int threads_;
  const std::function<void()> wake_;
  // The number of the loop (upper half) and its next turn (lower half), so that no turn of a loop that is over can be
  // taken. The members of a loop are read before a turn of it is taken, and used only if that succeeds.
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint32_t> turns_{0};
  std::atomic<const void*> object_{nullptr};
  std::atomic<Call> call_{nullptr};
  alignas(64) std::atomic<std::uint32_t> done_{0};
};

}  // namespace lockstep::detail
