// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Virtual time for tests: the threads of a run take turns, exactly one at a time, and when all of them wait, time jumps
// to the next event. README.md says which functions of the C library a program that links this library replaces.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep::virtual_time {

struct Options {
  /// 0: threads take turns in the order in which they became ready. Else each turn goes to a random thread of those
  /// that are ready; the same seed gives the same history.
  std::uint64_t seed = 0;
  /// At one of so many places (before pthread_mutex_lock, and after an unlock of a mutex or a signal of a condition)
  /// the thread loses its turn, or waits for up to 20 ms, as if the machine were busy; chosen by `seed`. 0: never.
  std::uint64_t delays_one_in = 0;
  /// The number of processors that the threads see. 0: those that the program has. The threads take turns on one of
  /// them.
  int processors = 0;
  /// Returns the index of the thread that runs next, less than its argument, the number of threads that are ready (at
  /// least 2). Replaces the choice by `seed`. Called with no lock held; must not block or wait.
  std::function<std::size_t(std::size_t ready)> choose;
  /// A run that lasts longer in virtual time is a failure: its threads wait for an event that does not come.
  std::chrono::nanoseconds longest = std::chrono::hours(48);
  /// A run that lasts longer in real time is a failure: a thread computes or spins without a pause.
  std::chrono::seconds longest_real = std::chrono::minutes(5);

  /// The defaults, with the numbers of the environment variables LOCKSTEP_VIRTUAL_SEED and LOCKSTEP_VIRTUAL_DELAYS
  /// where they are set.
  [[nodiscard]] static Options from_environment();
};

/// Whether this program was built for virtual time. With sanitizers, only programs with virtual_time_always_dep are.
[[nodiscard]] bool is_available() noexcept;
/// Whether the calling thread belongs to a run, so that its waits take no real time.
[[nodiscard]] bool is_active() noexcept;

/// Whether the calling thread belongs to a run with Options::delays_one_in, where an exact check of a duration does not
/// hold.
[[nodiscard]] bool has_delays() noexcept;

/// The time since the begin of the run of the calling thread; zero outside of a run. Reading it never changes it.
[[nodiscard]] std::chrono::nanoseconds now() noexcept;

/// A number for a random generator of the calling thread's own: in a run, it depends on the seed of the run and on the
/// number of the thread in the run, so that it is the same whenever the history is. Outside of a run, a new number in
/// each call.
[[nodiscard]] std::uint64_t seed_of_thread() noexcept;

/// Groups of threads of a run, such as the threads of one rank in a simulation of a job. A new thread belongs to the
/// group of the thread that creates it; the first thread of a run belongs to group 0. The functions below do nothing
/// outside of a run.
inline constexpr int most_groups = 128;
/// From now on the calling thread belongs to `group`, from 0 to most_groups - 1.
void join_group(int group) noexcept;
/// The group of the calling thread; 0 outside of a run.
[[nodiscard]] int group() noexcept;
/// As SIGSTOP for a process: after `turns` more turns of its threads, no thread of the group gets a turn until
/// `continue_group`. Time goes on, so that deadlines of its threads pass meanwhile.
void stop_group(int group, std::uint64_t turns = 0);
/// Takes a stop back, also one that has not begun.
void continue_group(int group);
/// When the group was stopped; empty if it is not stopped.
[[nodiscard]] std::optional<std::chrono::nanoseconds> stopped_since(int group);
/// The number of turns of the threads of the group.
[[nodiscard]] std::uint64_t turns_of_group(int group);
/// There are `count` mappings of the same `bytes`, one behind another from `begin` on: a futex in one of them is the
/// same as in the others, as in the kernel. To be called while no other thread runs, or by a thread of the run.
void has_views(const void* begin, std::size_t bytes, std::size_t count);
/// Takes that back.
void forget_views(const void* begin);
/// Gives other threads that are ready a turn. No time passes.
void preempt();
/// Prints the stacks of the other threads of the run.
void print_stacks();

/// A run in virtual time: from the construction to the destruction, the constructing thread and the threads that it and
/// they create take turns. A deadlock prints the stack of every thread and ends the process with status 1.
/// At most one run exists at a time. Where virtual time is not available, a run changes nothing.
class VirtualRun {
 public:
  explicit VirtualRun(const Options& options = Options::from_environment());
  /// As `end`.
  ~VirtualRun();
  VirtualRun(const VirtualRun&) = delete;
  VirtualRun& operator=(const VirtualRun&) = delete;

  /// Lets the other threads of the run go on until they have ended, or until all of them wait for an event that does
  /// not come, or for one minute of virtual time. Ends the run; returns the number of threads that have not ended.
  /// Their stacks are printed, and they never run again.
  int end();

  /// A hash of all choices and of their times up to now; equal for two runs with the same history.
  [[nodiscard]] std::uint64_t history() const noexcept;
  /// Number of choices up to now.
  [[nodiscard]] std::uint64_t turns() const noexcept;

 private:
  [[maybe_unused]] bool is_open_ = false;
};

}  // namespace lockstep::virtual_time
