// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The run queue and the clock. The state belongs to the thread whose turn it is: exactly one thread of a run runs, and
// the others wait for their turn, each on a futex of its own.

#pragma once

#include "virtual_time/virtual_time.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>

namespace lockstep::virtual_time::detail {

/// Nanoseconds since the begin of the run.
using Time = std::int64_t;
inline constexpr Time never = std::numeric_limits<Time>::max();

/// `ended`: not joined yet. `abandoned`: of an earlier run; the thread never runs again.
enum class State { unused, ready, running, blocked, ended, abandoned };

/// A thread of a run.
struct Thread {
  int number = 0;  // in the order of creation
  int group = 0;
  State state = State::unused;
  std::uint64_t order = 0;        // of becoming ready, or of blocking
  const void* address = nullptr;  // of the object for which the thread waits; null if it waits for time alone
  Time deadline = never;          // of the wait
  bool timed_out = false;         // the last wait
  pollfd* descriptors = nullptr;  // for which the thread waits
  nfds_t count_descriptors = 0;

  const void* lent = nullptr;  // a mutex that the thread holds, and for which a thread of another group waits

  Time wait_begin = -1;              // the first pause of the current loop of pauses; -1 outside of one
  std::uint32_t last_pause = 0;      // number of the last pause of this loop
  std::uint32_t clock_readings = 0;  // since the last turn began

  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
  pthread_t handle{};
  std::atomic<pid_t> id{0};  // 0 until it has begun
  bool is_detached = false;
  int exit_rounds = 0;

  enum Signal : std::uint32_t { wait, run, print_stack };
  std::atomic<std::uint32_t> signal{wait};
};

/// The threads of a group take turns, or none of them does.
struct Group {
  static constexpr std::uint64_t never_stops = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t turns_to_stop = never_stops;
  std::uint64_t turns = 0;
  Time stopped_at = never;  // `never` if it is not stopped
  [[nodiscard]] bool is_stopped() const noexcept { return stopped_at != never; }
};

class Scheduler {
 public:
  static constexpr std::size_t most_threads = 2048;
  enum class Pause { spin, yield };

  void begin(const Options& options);
  /// Returns the number of threads that have not ended.
  int end();

  [[nodiscard]] Time now() const noexcept { return now_; }
  [[nodiscard]] bool has_delays() const noexcept { return delays_one_in_ != 0; }
  [[nodiscard]] int processors() const noexcept { return processors_; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  [[nodiscard]] std::uint64_t history() const noexcept { return history_; }
  [[nodiscard]] std::uint64_t turns() const noexcept { return turns_; }

  /// Blocks the calling thread until `wake` is called for `address` or `deadline` is reached. Returns false after a
  /// timeout.
  bool block(const void* address, Time deadline = never);
  /// Makes up to `count` threads ready that wait for `address`, in the order in which they began to wait. Returns their
  /// number.
  int wake(const void* address, int count = std::numeric_limits<int>::max());
  /// The calling thread waits for `mutex`, which the thread `holder` of the system holds. If that thread belongs to
  /// another group, it runs until it releases `mutex`, even if its group is stopped: processes share no such mutex.
  void lend(const void* mutex, pid_t holder) noexcept;
  /// The calling thread has released `mutex`.
  void take_back(const void* mutex);
  /// Blocks the calling thread until one of the descriptors is ready, or `deadline` is reached.
  void block_on_descriptors(pollfd* descriptors, nfds_t count, Time deadline);
  /// A pause in a loop that waits: its duration doubles from pause to pause, up to 16 ms. `number` counts the pauses of
  /// the loop; 0 if the loop does not count.
  void pause(Pause kind, std::uint32_t number);
  /// A loop that only reads clocks waits, too.
  void count_clock_reading();

  [[nodiscard]] Group& group(int number) noexcept { return groups_[static_cast<std::size_t>(number)]; }
  /// A place where a thread of a busy machine is likely to lose its processor: see Options::delays_one_in.
  void delay();
  /// The calling thread stays ready, and the turn goes to a thread that may run.
  void preempt();

  /// A record for a thread that the caller will start; null if there are too many.
  Thread* add_thread();
  void remove_thread(Thread* thread) noexcept;
  /// Makes the new thread ready, and gives the calling thread's turn back.
  void started(Thread* thread);
  [[nodiscard]] Thread* find_thread(pthread_t handle) noexcept;
  /// First and last steps of a thread.
  void enter(Thread* thread) noexcept;
  void leave(Thread* thread);
  /// In the child of a fork, which has one thread.
  void forget_others() noexcept;

  void print_stacks(const Thread* without) noexcept;
  /// Prints the reason and the stacks of all threads, and ends the process.
  [[noreturn]] void fail(const char* reason);
  /// From the thread that watches the real time.
  [[noreturn]] void fail_from_outside(const char* reason);

 private:
  [[nodiscard]] bool is_stopped(const Thread& thread) noexcept {
    return group(thread.group).is_stopped() && thread.lent == nullptr;
  }
  void make_ready(Thread& thread, bool timed_out) noexcept;
  void move_if_processor_is_busy() noexcept;
  void give_turn_away(Thread& self);
  void wait_for_turn(Thread& self) noexcept;
  Thread* choose();
  Thread* choose_among_ready();
  std::uint64_t next_random() noexcept;
  bool wake_by_descriptors(int timeout_ms);
  void advance();
  [[nodiscard]] std::size_t count_others() const noexcept;

  std::array<Thread, most_threads> threads_;
  std::array<Group, most_groups> groups_;
  std::size_t used_ = 0;  // threads_[used_] and those after it are unused
  std::array<Thread*, most_threads> candidates_{};
  int created_ = 0;
  int blocked_ = 0;  // number of threads that wait for an address
  std::uint64_t order_ = 0;
  Time now_ = 0;
  Time longest_ = never;
  bool is_ending_ = false;
  std::uint64_t history_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t seed_ = 0;
  std::uint64_t random_ = 0;
  std::uint64_t delays_one_in_ = 0;
  int processors_ = 0;
  std::function<std::size_t(std::size_t)> choose_;
};

/// The functions of the C library have no argument by which to pass a scheduler on.
extern constinit thread_local Thread* self;
Scheduler& scheduler() noexcept;

/// The scheduler, if the calling thread belongs to a run, else null.
[[nodiscard]] inline Scheduler* active() noexcept { return self == nullptr ? nullptr : &scheduler(); }

/// Sleeps until `*word` is not `expected`, really; it may return earlier. Returns false after the timeout.
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t timeout_ns = -1) noexcept;
void futex_wake(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace lockstep::virtual_time::detail
