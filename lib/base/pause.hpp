// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Pauses of loops that wait, and readings of the processor's time-stamp counter. A test that runs threads one at a
// time, in virtual time, must see both: the pauses give its other threads their turn. All other waits and clocks of the
// library are functions of the C library, which such a test replaces.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace lockstep::detail {

enum class PauseKind { spin, yield };

/// What a test puts in place of pauses and time stamps, for the threads that it runs.
struct PauseHooks {
  /// `number` counts the pauses of one loop, from 1 on. Returns false if the calling thread is not one of the test's.
  bool (*pause)(PauseKind kind, std::uint32_t number) noexcept;
  std::uint64_t (*time_stamp)() noexcept;
};

/// Null except in such a test, which sets it while no thread of the library runs: so relaxed order is enough.
inline constinit std::atomic<const PauseHooks*> pause_hooks{nullptr};

[[nodiscard]] inline bool pause_by_hook(PauseKind kind, std::uint32_t number) noexcept {
  const PauseHooks* const hooks = pause_hooks.load(std::memory_order_relaxed);
  return hooks != nullptr && hooks->pause(kind, number);
}

/// Whether a test runs threads one at a time, so that spinning is of no use.
[[nodiscard]] inline bool has_pause_hooks() noexcept { return pause_hooks.load(std::memory_order_relaxed) != nullptr; }

/// Tells the processor that the calling thread spins. The processor then yields the core to the sibling hyperthread for
/// a moment, and avoids a pipeline flush when the loop ends. Takes some tens of nanoseconds. `number` as in PauseHooks.
inline void cpu_relax(std::uint32_t number) noexcept {
  if (pause_by_hook(PauseKind::spin, number)) return;
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` does nothing on most ARM processors
#endif
}

/// Lets another thread use the core.
inline void yield_core(std::uint32_t number) noexcept {
  if (!pause_by_hook(PauseKind::yield, number)) std::this_thread::yield();
}

/// Sleeps between two tests of a condition.
inline void sleep_briefly(std::chrono::microseconds time, std::uint32_t number) {
  if (!pause_by_hook(PauseKind::yield, number)) std::this_thread::sleep_for(time);
}

/// A reading of the processor's time-stamp counter.
[[nodiscard]] inline std::uint64_t time_stamp_of_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// A time that costs some nanoseconds: a reading of the counter; never zero. If the kernel also uses the counters for
/// its own clock, the counters of all processors of the host agree.
[[nodiscard]] inline std::uint64_t time_stamp() noexcept {
  const PauseHooks* const hooks = pause_hooks.load(std::memory_order_relaxed);
  return hooks == nullptr ? time_stamp_of_processor() : hooks->time_stamp();
}

}  // namespace lockstep::detail
