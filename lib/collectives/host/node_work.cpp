// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_work.hpp"

#include <chrono>
#include <thread>

namespace lockstep::detail {

void NodeWork::arrive(std::uint64_t tag, Arrival& arrival) {
  tag_ = tag;
  slot_ = ControlBlock::slot_of(tag);
  arrival.clock =
      group_.own_control_block().clock.value.load(std::memory_order_relaxed);  // its only writer is this rank
}

/// Sequentially consistent on both sides: either we see that it was given up, or they see that we are at work.
bool NodeWork::begin(std::span<const int> givers) {
  group_.at_flag();
  group_.own_control_block().working.value.store(tag_, std::memory_order_seq_cst);
  for (const int giver : givers) {
    // one that was stopped for long may find the note of a later operation
    if (arrival_of(giver).abandoned.load(std::memory_order_seq_cst) >= tag_) {
      end();
      return false;
    }
  }
  return true;
}

void NodeWork::end() { group_.own_control_block().working.value.store(0, std::memory_order_release); }

void NodeWork::tick() {
  group_.at_flag();
  std::atomic<std::uint64_t>& clock = group_.own_control_block().clock.value;
  clock.store(clock.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool NodeWork::has_ticked(int member, std::size_t steps) const {
  return group_.control_block(member).clock.value.load(std::memory_order_acquire) >=
         arrival_of(member).clock.get() + steps;
}

bool NodeWork::abandon(std::span<const int> takers, OwnTable& table) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (const int taker : takers) {
    while (group_.control_block(taker).working.value.load(std::memory_order_seq_cst) == tag_) {
      if (std::chrono::steady_clock::now() > end) {
        group_.staging().inputs.leak();
        group_.staging().results.leak();
        table.leak();
        return true;
      }
      std::this_thread::yield();
    }
  }
  return false;
}

}  // namespace lockstep::detail
