// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/parallel_loop.hpp"

#include "base/pause.hpp"

#include <cstdint>

namespace lockstep::detail {
namespace {

constexpr std::uint32_t idle_spins = 2000;

constexpr std::uint32_t turn_of(std::uint64_t next) noexcept { return static_cast<std::uint32_t>(next); }

}  // namespace

bool ParallelLoop::is_open() const noexcept {
  // This load and the store that opens the loop are sequentially consistent: either a thread that is about to sleep
  // sees the open loop, or the thread that opens the loop sees the sleeping thread and wakes it.
  const std::uint32_t turns = turns_.load(std::memory_order_seq_cst);
  return turn_of(next_.load(std::memory_order_relaxed)) < turns;
}

void ParallelLoop::help() noexcept {
  std::uint64_t next = next_.load(std::memory_order_acquire);
  // acquire: a thread that has seen the number of turns of a loop cannot begin a turn of the previous loop
  while (turn_of(next) < turns_.load(std::memory_order_acquire)) {
    const void* const object = object_.load(std::memory_order_relaxed);
    const Call call = call_.load(std::memory_order_relaxed);
    // acquire: makes visible what the running thread wrote before it opened the loop. The compare-exchange fails if
    // another thread has begun this turn, or if another loop has begun.
    if (!next_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    call(object, turn_of(next));
    done_.fetch_add(1, std::memory_order_release);
    ++next;
  }
}

void ParallelLoop::run_turns(std::uint32_t turns, const void* object, Call call) {
  if (turns < 2 || threads_ < 2) {
    for (std::uint32_t turn = 0; turn < turns; ++turn) call(object, turn);
    return;
  }
  // all turns of the last loop are done: no thread executes a turn, and no thread can begin one
  done_.store(0, std::memory_order_relaxed);
  turns_.store(0, std::memory_order_relaxed);
  object_.store(object, std::memory_order_relaxed);
  call_.store(call, std::memory_order_relaxed);
  const std::uint64_t number = (next_.load(std::memory_order_relaxed) >> 32) + 1;
  next_.store(number << 32, std::memory_order_release);
  turns_.store(turns, std::memory_order_seq_cst);
  wake_();
  help();
  for (std::uint32_t spins = 0; done_.load(std::memory_order_acquire) < turns; ++spins) {
    spins < idle_spins ? cpu_relax(spins + 1) : yield_core(spins + 1);
  }
}

}  // namespace lockstep::detail
