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

}  // namespace

void NodeSleep::announce() noexcept {
  if (group_.departure_of(group_.rank()) != Departure::none) return;
  ControlBlock::Sleepers& own = group_.own_control_block().own_sleepers;
  wakes_ = own.wakes.load(std::memory_order_relaxed);
  own.count.fetch_add(1, std::memory_order_relaxed);
  group_.control_block(0).sleepers.value.fetch_add(1, std::memory_order_seq_cst);
}

bool NodeSleep::sleep(std::chrono::microseconds time) const noexcept {
  std::atomic<std::uint32_t>& wakes = group_.own_control_block().own_sleepers.wakes;
  const timespec most{static_cast<time_t>(time.count() / 1'000'000),
                      static_cast<long>(time.count() % 1'000'000 * 1000)};
  static_cast<void>(syscall(SYS_futex, &wakes, FUTEX_WAIT, wakes_, &most, nullptr, 0));
  return wakes.load(std::memory_order_acquire) != wakes_;
}

void NodeSleep::withdraw() noexcept {
  if (group_.departure_of(group_.rank()) != Departure::none) return;
  group_.own_control_block().own_sleepers.count.fetch_sub(1, std::memory_order_relaxed);
  group_.control_block(0).sleepers.value.fetch_sub(1, std::memory_order_relaxed);
}

void NodeGroup::wake_sleepers() const noexcept {
  for (const Member& member : members_) {
    ControlBlock::Sleepers& sleepers = member.control_block->own_sleepers;
    if (sleepers.count.load(std::memory_order_relaxed) == 0) continue;
    sleepers.wakes.fetch_add(1, std::memory_order_release);
    static_cast<void>(syscall(SYS_futex, &sleepers.wakes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0));
  }
}

}  // namespace lockstep::detail
