// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/node_sleep.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <ctime>

namespace lockstep::detail {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex is a word of 32 bits");

void wake_threads(ControlBlock::Sleep& sleep) noexcept {
  if (sleep.is_announced.load(std::memory_order_relaxed) == 0 ||
      sleep.is_announced.exchange(0, std::memory_order_relaxed) == 0)
    return;
  sleep.wakes.fetch_add(1, std::memory_order_release);
  static_cast<void>(syscall(SYS_futex, &sleep.wakes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0));
}

}  // namespace

void NodeSleep::announce() noexcept {
  ControlBlock::Sleep& own = group_.own_control_block().sleep;
  if (!is_announced_) wakes_ = own.wakes.load(std::memory_order_relaxed);
  is_announced_ = true;
  if (group_.departure_of(group_.rank()) != Departure::none) return;
  own.is_announced.store(1, std::memory_order_relaxed);
  group_.control_block(0).any_sleep.value.store(1, std::memory_order_seq_cst);
}

bool NodeSleep::sleep(std::chrono::microseconds time) noexcept {
  std::atomic<std::uint32_t>& wakes = group_.own_control_block().sleep.wakes;
  const timespec most{static_cast<time_t>(time.count() / 1'000'000),
                      static_cast<long>(time.count() % 1'000'000 * 1000)};
  static_cast<void>(syscall(SYS_futex, &wakes, FUTEX_WAIT, wakes_, &most, nullptr, 0));
  is_announced_ = wakes.load(std::memory_order_acquire) == wakes_;
  return !is_announced_;
}

void NodeGroup::wake_all() const noexcept {
  control_block(0).any_sleep.value.exchange(0, std::memory_order_acq_rel);  // sees what was announced before it
  for (const Member& member : members_) wake_threads(member.control_block->sleep);
}

void NodeGroup::wake_own() const noexcept {
  if (departure_of(rank_) == Departure::none) wake_threads(own_control_block().sleep);
}

}  // namespace lockstep::detail
