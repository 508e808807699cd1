// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "virtual_time/scheduler.hpp"
#include "virtual_time/stack.hpp"
#include "virtual_time/threads.hpp"

#include "base/pause.hpp"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

namespace lockstep::virtual_time {
namespace {

using detail::Scheduler;
using detail::scheduler;
using detail::Time;

// ---- lockstep's own pauses and time stamps

bool pause_in_run(lockstep::detail::PauseKind kind, std::uint32_t number) noexcept {
  Scheduler* const run = detail::active();
  if (run == nullptr) return false;
  run->pause(kind == lockstep::detail::PauseKind::spin ? Scheduler::Pause::spin : Scheduler::Pause::yield, number);
  return true;
}

std::uint64_t time_stamp_in_run() noexcept {
  Scheduler* const run = detail::active();
  if (run == nullptr) return lockstep::detail::time_stamp_of_processor();
  run->count_clock_reading();
  return static_cast<std::uint64_t>(run->now()) + 1;  // never zero
}

constexpr lockstep::detail::PauseHooks hooks{pause_in_run, time_stamp_in_run};

// ---- a limit in real time

constinit std::atomic<std::uint32_t> runs{0};            // begun or ended
constinit std::atomic<std::int64_t> longest_real_ns{0};  // of the current run

void* watch_real_time(void*) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  for (;;) {
    const std::uint32_t before = runs.load();
    const bool is_open = before % 2 == 1;
    // woken without a new run: by the thread that has counted this one, and wakes only now
    if (detail::futex_wait(runs, before, is_open ? longest_real_ns.load() : -1)) continue;
    if (runs.load() == before) scheduler().fail_from_outside("the run has reached its limit in real time");
  }
}

void start_watching() {
  static const bool is_started = [] {
    pthread_t handle{};
    if (detail::create_outside_of_runs(&handle, watch_real_time, nullptr) == 0) pthread_detach(handle);
    return true;
  }();
  static_cast<void>(is_started);
}

void count_run() {
  runs.fetch_add(1);
  detail::futex_wake(runs);
}

}  // namespace

Options Options::from_environment() {
  Options options;
  if (const char* const seed = std::getenv("LOCKSTEP_VIRTUAL_SEED")) options.seed = std::strtoull(seed, nullptr, 0);
  if (const char* const delays = std::getenv("LOCKSTEP_VIRTUAL_DELAYS"))
    options.delays_one_in = std::strtoull(delays, nullptr, 0);
  return options;
}

bool is_available() noexcept { return true; }
bool is_active() noexcept { return detail::active() != nullptr; }
bool has_delays() noexcept {
  const Scheduler* const run = detail::active();
  return run != nullptr && run->has_delays();
}

std::chrono::nanoseconds now() noexcept {
  const Scheduler* const run = detail::active();
  return std::chrono::nanoseconds(run == nullptr ? 0 : run->now());
}

std::uint64_t seed_of_thread() noexcept {
  if (const Scheduler* const run = detail::active()) {
    return run->seed() * Scheduler::most_threads + static_cast<std::uint64_t>(detail::self->number);
  }
  static constinit std::atomic<std::uint64_t> calls{0};
  return calls.fetch_add(1, std::memory_order_relaxed);
}

void join_group(int group) noexcept {
  if (detail::active() != nullptr) detail::self->group = group;
}

int group() noexcept { return detail::active() != nullptr ? detail::self->group : 0; }

void stop_group(int group, std::uint64_t turns) {
  Scheduler* const run = detail::active();
  if (run == nullptr || run->group(group).is_stopped()) return;
  if (turns > 0) {
    run->group(group).turns_to_stop = turns;
    return;
  }
  run->group(group).stopped_at = run->now();
  if (group == detail::self->group) run->preempt();
}

void continue_group(int group) {
  Scheduler* const run = detail::active();
  if (run == nullptr) return;
  run->group(group).turns_to_stop = detail::Group::never_stops;
  run->group(group).stopped_at = detail::never;
}

std::optional<std::chrono::nanoseconds> stopped_since(int group) {
  Scheduler* const run = detail::active();
  if (run == nullptr || !run->group(group).is_stopped()) return std::nullopt;
  return std::chrono::nanoseconds(run->group(group).stopped_at);
}

std::uint64_t turns_of_group(int group) {
  Scheduler* const run = detail::active();
  return run == nullptr ? 0 : run->group(group).turns;
}

void preempt() {
  if (Scheduler* const run = detail::active()) run->preempt();
}

void print_stacks() {
  if (Scheduler* const run = detail::active()) run->print_stacks(detail::self);
}

VirtualRun::VirtualRun(const Options& options) {
  if (runs.load() % 2 == 1) {
    detail::print_line("virtual time: a run exists already");
    std::abort();
  }
  detail::prepare_threads();
  detail::prepare_stacks();
  start_watching();
  longest_real_ns = std::chrono::nanoseconds(options.longest_real).count();
  count_run();
  scheduler().begin(options);
  lockstep::detail::pause_hooks.store(&hooks, std::memory_order_relaxed);
  is_open_ = true;
}

VirtualRun::~VirtualRun() { end(); }

int VirtualRun::end() {
  if (!std::exchange(is_open_, false)) return 0;
  const int left = scheduler().end();
  lockstep::detail::pause_hooks.store(nullptr, std::memory_order_relaxed);
  count_run();
  return left;
}

std::uint64_t VirtualRun::history() const noexcept { return scheduler().history(); }
std::uint64_t VirtualRun::turns() const noexcept { return scheduler().turns(); }

}  // namespace lockstep::virtual_time
