// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_work.hpp"

#include <chrono>
#include <thread>

namespace lockstep::detail {

void NodeWork::arrive(std::uint64_t tag, Arrival& arrival) {
  tag_ = tag;
  slot_ = ControlBlock::slot_of(tag);
  arrival.step_counter =
      group_.own_control_block().step_counter.value.load(std::memory_order_relaxed);  // this rank is its only writer
}

/// Sequentially consistent on both sides: either this rank sees that the operation was abandoned, or the other rank
/// sees that this one is working.
bool NodeWork::begin(std::span<const int> producers) {
  group_.at_flag();
  group_.own_control_block().working.value.store(tag_, std::memory_order_seq_cst);
  for (const int producer : producers) {
    // a rank that was stopped for long may find the mark of a later operation
    if (arrival_of(producer).abandoned.load(std::memory_order_seq_cst) >= tag_) {
      end();
      return false;
    }
  }
  return true;
}

void NodeWork::end() { group_.own_control_block().working.value.store(0, std::memory_order_release); }

void NodeWork::tick() {
  group_.at_flag();
  std::atomic<std::uint64_t>& counter = group_.own_control_block().step_counter.value;
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool NodeWork::has_ticked(int member, std::size_t steps) const {
  return group_.control_block(member).step_counter.value.load(std::memory_order_acquire) >=
         arrival_of(member).step_counter.get() + steps;
}

bool NodeWork::abandon(std::span<const int> consumers, OwnTable& table) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (const int consumer : consumers) {
    while (group_.control_block(consumer).working.value.load(std::memory_order_seq_cst) == tag_) {
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
