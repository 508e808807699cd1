// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "virtual_time/scheduler.hpp"

#include "virtual_time/observer.hpp"
#include "virtual_time/processor.hpp"
#include "virtual_time/real.hpp"
#include "virtual_time/stack.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace lockstep::virtual_time::detail {
namespace {

constexpr Time longest_spin = 16'000;       // ns
constexpr Time longest_yield = 16'000'000;  // ns
constexpr Time shortest_pause = 1'000;      // ns
constexpr std::uint32_t clock_readings_of_a_loop = 1000;
constexpr std::uint64_t turns_between_looks = 1024;

VIRTUAL_TIME_REAL(syscall);
VIRTUAL_TIME_REAL(poll);

Scheduler the_scheduler;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) noexcept {
  hash ^= value + 0x9e3779b97f4a7c15U + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdU;
}

bool is_alive(const Thread& thread) noexcept {
  return thread.state == State::ready || thread.state == State::running || thread.state == State::blocked;
}

}  // namespace

constinit thread_local Thread* self = nullptr;
constinit const Observer* observer = nullptr;

Scheduler& scheduler() noexcept { return the_scheduler; }

bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t timeout_ns) noexcept {
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  const timespec* const limit = timeout_ns < 0 ? nullptr : &timeout;
  return real_syscall(long{SYS_futex}, &word, FUTEX_WAIT_PRIVATE, expected, limit) == 0 || errno != ETIMEDOUT;
}

void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
  real_syscall(long{SYS_futex}, &word, FUTEX_WAKE_PRIVATE, 1);
}

void Scheduler::begin(const Options& options) {
  now_ = 0;
  longest_ = options.longest.count();
  history_ = 0;
  turns_ = 0;
  order_ = 0;
  created_ = 0;
  seed_ = options.seed;
  random_ = options.seed;
  delays_one_in_ = options.seed != 0 ? options.delays_one_in : 0;
  processors_ = options.processors;
  choose_ = options.choose;
  is_ending_ = false;
  groups_.fill({});
  for (std::size_t i = 0; i < used_; ++i) {
    if (threads_[i].state == State::ended) remove_thread(&threads_[i]);
    if (threads_[i].state != State::unused) threads_[i].state = State::abandoned;
  }
  blocked_ = 0;
  Thread* const first = add_thread();
  first->handle = pthread_self();
  first->id.store(gettid(), std::memory_order_relaxed);
  first->state = State::running;
  self = first;
  use_one_processor();
}

int Scheduler::end() {
  is_ending_ = true;
  const Time until = now_ + 60'000'000'000;
  while (count_others() > 0 && block(this, until)) {}
  const auto others = static_cast<int>(count_others());
  if (others > 0) {
    std::fprintf(stderr, "virtual time: %d threads have not ended; their stacks:\n", others);
    print_stacks(self);
  }
  use_all_processors();
  self->state = State::unused;
  self = nullptr;
  return others;
}

std::size_t Scheduler::count_others() const noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < used_; ++i) {
    const Thread& thread = threads_[i];
    if (&thread != self && is_alive(thread)) ++count;
  }
  return count;
}

bool Scheduler::block(const void* address, Time deadline) {
  Thread& thread = *self;
  if (deadline <= now_) {  // other threads come first, and time passes in a loop of such waits
    pause(Pause::yield, 0);
    return false;
  }
  thread.wait_begin = -1;
  thread.state = State::blocked;
  thread.order = ++order_;
  thread.address = address;
  thread.deadline = deadline;
  if (address != nullptr) ++blocked_;
  give_turn_away(thread);
  return !thread.timed_out;
}

void Scheduler::lend(const void* mutex, pid_t holder) noexcept {
  for (std::size_t i = 0; i < used_; ++i) {
    Thread& thread = threads_[i];
    if (thread.group != self->group && is_alive(thread) && thread.id.load(std::memory_order_relaxed) == holder)
      thread.lent = mutex;
  }
}

void Scheduler::take_back(const void* mutex) {
  if (self->lent != mutex) return;
  self->lent = nullptr;
  if (is_stopped(*self)) preempt();
}

int Scheduler::wake(const void* address, int count) {
  int woken = 0;
  while (woken < count && blocked_ > 0) {
    Thread* first = nullptr;
    for (std::size_t i = 0; i < used_; ++i) {
      Thread& thread = threads_[i];
      if (thread.state != State::blocked || thread.address != address) continue;
      if (first == nullptr || thread.order < first->order) first = &thread;
    }
    if (first == nullptr) break;
    make_ready(*first, false);
    ++woken;
  }
  if (woken > 0 && self != nullptr) self->wait_begin = -1;
  return woken;
}

void Scheduler::block_on_descriptors(pollfd* descriptors, nfds_t count, Time deadline) {
  Thread& thread = *self;
  thread.descriptors = descriptors;
  thread.count_descriptors = count;
  block(nullptr, deadline);
  thread.descriptors = nullptr;
}

void Scheduler::pause(Pause kind, std::uint32_t number) {
  Thread& thread = *self;
  if (thread.wait_begin < 0 || (number != 0 && number <= thread.last_pause)) thread.wait_begin = now_;
  thread.last_pause = number != 0 ? number : thread.last_pause + 1;
  const Time begin = thread.wait_begin;
  block(nullptr, now_ + std::clamp(now_ - begin, shortest_pause, kind == Pause::spin ? longest_spin : longest_yield));
  thread.wait_begin = begin;
}

void Scheduler::count_clock_reading() {
  if (++self->clock_readings > clock_readings_of_a_loop) pause(Pause::yield, 0);
}

Thread* Scheduler::add_thread() {
  for (std::size_t i = 0; i < most_threads; ++i) {
    Thread& thread = threads_[i];
    if (thread.state != State::unused) continue;
    thread.number = created_++;
    thread.group = self != nullptr ? self->group : 0;
    thread.state = State::blocked;
    thread.order = ++order_;
    thread.address = nullptr;
    thread.deadline = never;
    thread.timed_out = false;
    thread.wait_begin = -1;
    thread.last_pause = 0;
    thread.clock_readings = 0;
    thread.handle = {};
    thread.id.store(0, std::memory_order_relaxed);
    thread.is_detached = false;
    thread.exit_rounds = 0;
    thread.lent = nullptr;
    thread.signal.store(Thread::wait, std::memory_order_relaxed);
    used_ = std::max(used_, i + 1);
    return &thread;
  }
  return nullptr;
}

void Scheduler::remove_thread(Thread* thread) noexcept { thread->state = State::unused; }

void Scheduler::started(Thread* thread) {
  make_ready(*thread, false);
  self->wait_begin = -1;
  make_ready(*self, false);
  give_turn_away(*self);
}

Thread* Scheduler::find_thread(pthread_t handle) noexcept {
  for (std::size_t i = 0; i < used_; ++i) {
    if (threads_[i].state != State::unused && pthread_equal(threads_[i].handle, handle) != 0) return &threads_[i];
  }
  return nullptr;
}

void Scheduler::enter(Thread* thread) noexcept {
  self = thread;
  thread->id.store(gettid(), std::memory_order_relaxed);
  wait_for_turn(*thread);
}

void Scheduler::leave(Thread* thread) {
  if (observer != nullptr) observer->ends();
  thread->state = State::ended;
  if (thread->is_detached) remove_thread(thread);
  wake(thread);
  if (is_ending_) wake(this);
  Thread* const next = choose();
  self = nullptr;
  next->signal.store(Thread::run, std::memory_order_release);
  futex_wake(next->signal);
}

void Scheduler::forget_others() noexcept {
  for (std::size_t i = 0; i < used_; ++i) {
    if (&threads_[i] != self) threads_[i].state = State::unused;
  }
  blocked_ = 0;
  self->id.store(gettid(), std::memory_order_relaxed);
  look_again();
}

void Scheduler::make_ready(Thread& thread, bool timed_out) noexcept {
  if (thread.state == State::blocked && thread.address != nullptr) --blocked_;
  thread.state = State::ready;
  thread.order = ++order_;
  thread.address = nullptr;
  thread.deadline = never;
  thread.timed_out = timed_out;
}

void Scheduler::move_if_processor_is_busy() noexcept {
  if (turns_ % turns_between_looks != 0 || !must_move()) return;
  for (std::size_t i = 0; i < used_; ++i) {
    const pid_t id = threads_[i].id.load(std::memory_order_relaxed);
    if (id != 0 && is_alive(threads_[i])) bind(id);
  }
}

void Scheduler::give_turn_away(Thread& thread) {
  move_if_processor_is_busy();
  Thread* const next = choose();
  if (next == &thread) return;
  next->signal.store(Thread::run, std::memory_order_release);
  futex_wake(next->signal);
  wait_for_turn(thread);
}

void Scheduler::wait_for_turn(Thread& thread) noexcept {
  for (;;) {
    const std::uint32_t signal = thread.signal.load(std::memory_order_acquire);
    if (signal == Thread::run) break;
    if (signal == Thread::print_stack) {
      print_this_stack();
      thread.signal.store(Thread::wait, std::memory_order_release);
      futex_wake(thread.signal);
    } else {
      futex_wait(thread.signal, Thread::wait);
    }
  }
  thread.signal.store(Thread::wait, std::memory_order_relaxed);
}

void Scheduler::delay() {
  if (delays_one_in_ == 0 || next_random() % delays_one_in_ != 0) return;
  constexpr std::uint64_t longest_delay = 20'000'000;  // ns
  if (next_random() % 4 != 0) {
    preempt();
  } else {
    const Time begin = self->wait_begin;  // a delay does not end a loop of pauses
    block(nullptr, now_ + static_cast<Time>(next_random() % longest_delay));
    self->wait_begin = begin;
  }
}

void Scheduler::preempt() {
  make_ready(*self, false);
  give_turn_away(*self);
}

Thread* Scheduler::choose() {
  for (;;) {
    Thread* const chosen = choose_among_ready();
    if (chosen == nullptr) {
      if (!wake_by_descriptors(0)) advance();
      continue;
    }
    Group& its_group = group(chosen->group);
    if (its_group.turns_to_stop == 0) {
      its_group.turns_to_stop = Group::never_stops;
      its_group.stopped_at = now_;
      continue;
    }
    if (its_group.turns_to_stop != Group::never_stops) --its_group.turns_to_stop;
    ++its_group.turns;
    chosen->state = State::running;
    chosen->clock_readings = 0;
    ++turns_;
    history_ = mixed(mixed(history_, static_cast<std::uint64_t>(chosen->number)), static_cast<std::uint64_t>(now_));
    return chosen;
  }
}

Thread* Scheduler::choose_among_ready() {
  std::size_t count = 0;
  for (std::size_t i = 0; i < used_; ++i) {
    if (threads_[i].state == State::ready && !is_stopped(threads_[i])) candidates_[count++] = &threads_[i];
  }
  if (count == 0) return nullptr;
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  const auto earlier = [](const Thread* left, const Thread* right) { return left->order < right->order; };
  if (count == 1) return candidates_[0];
  if (choose_) {
    std::sort(candidates_.begin(), end, earlier);
    return candidates_[std::min(choose_(count), count - 1)];
  }
  if (random_ == 0) return *std::min_element(candidates_.begin(), end, earlier);
  std::sort(candidates_.begin(), end, earlier);
  return candidates_[next_random() % count];
}

std::uint64_t Scheduler::next_random() noexcept {
  random_ ^= random_ << 13;  // xorshift64
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_ >> 11;
}

bool Scheduler::wake_by_descriptors(int timeout_ms) {
  bool has_woken = false;
  for (std::size_t i = 0; i < used_; ++i) {
    Thread& thread = threads_[i];
    if (thread.state != State::blocked || thread.descriptors == nullptr || is_stopped(thread)) continue;
    if (real_poll(thread.descriptors, thread.count_descriptors, timeout_ms) == 0) continue;
    make_ready(thread, false);
    has_woken = true;
  }
  return has_woken;
}

/// Lets time jump to the next deadline. If there is none, only another process can go on, by a descriptor.
void Scheduler::advance() {
  Time next = never;
  bool has_descriptors = false;
  for (std::size_t i = 0; i < used_; ++i) {
    if (threads_[i].state != State::blocked || is_stopped(threads_[i])) continue;
    next = std::min(next, threads_[i].deadline);
    has_descriptors = has_descriptors || threads_[i].descriptors != nullptr;
  }
  if (next == never) {
    if (!has_descriptors) fail("deadlock: every thread waits for another one");
    while (!wake_by_descriptors(1)) {}
    return;
  }
  if (next > longest_) fail("the run has reached its limit in virtual time");
  now_ = std::max(now_, next);  // deadlines of a group that was stopped may have passed
  for (;;) {
    Thread* first = nullptr;
    for (std::size_t i = 0; i < used_; ++i) {
      Thread& thread = threads_[i];
      if (thread.state != State::blocked || thread.deadline > now_ || is_stopped(thread)) continue;
      if (first == nullptr || thread.order < first->order) first = &thread;
    }
    if (first == nullptr) return;
    make_ready(*first, true);
  }
}

void Scheduler::print_stacks(const Thread* without) noexcept {
  for (std::size_t i = 0; i < used_; ++i) {
    Thread& thread = threads_[i];
    if (&thread == without || !is_alive(thread)) continue;
    print_line("thread %d%s:", thread.number, thread.state == State::blocked ? "" : " (not waiting)");
    if (&thread == self) {
      print_this_stack();
      continue;
    }
    std::uint32_t expected = Thread::wait;
    if (!thread.signal.compare_exchange_strong(expected, Thread::print_stack)) continue;
    futex_wake(thread.signal);
    for (int tries = 0; tries < 100 && thread.signal.load(std::memory_order_acquire) == Thread::print_stack; ++tries) {
      futex_wait(thread.signal, Thread::print_stack, 50'000'000);
    }
  }
}

void Scheduler::fail(const char* reason) {
  std::fflush(stdout);
  print_line("virtual time: %s, at %.9f s, after %llu turns", reason, static_cast<double>(now_) / 1e9,
             static_cast<unsigned long long>(turns_));
  print_stacks(nullptr);
  std::_Exit(1);
}

void Scheduler::fail_from_outside(const char* reason) {
  print_line("virtual time: %s, at %.9f s, after %llu turns", reason, static_cast<double>(now_) / 1e9,
             static_cast<unsigned long long>(turns_));
  for (std::size_t i = 0; i < used_; ++i) {
    if (threads_[i].state != State::running) continue;
    print_line("thread %d runs:", threads_[i].number);
    print_stack_of(threads_[i].handle);
    print_stacks(&threads_[i]);
  }
  std::_Exit(1);
}

}  // namespace lockstep::virtual_time::detail
