// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_work.hpp"

#include "base/log.hpp"
#include "base/mark.hpp"
#include "collectives/call/backoff.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace lockstep::detail {

void NodeWork::arrive(std::uint64_t tag, Arrival& arrival) {
  tag_ = tag;
  slot_ = ControlBlock::slot_of(tag);
  arrival.step_counter() =
      group_.own_control_block().step_counter.value.load(std::memory_order_relaxed);  // only this rank writes it
}

/// This rank stores `working` and then loads `abandoned`; a producer stores `abandoned` and then loads `working`. All
/// four accesses are sequentially consistent. So either this rank sees that the operation was abandoned, or the
/// producer sees that this rank is working.
bool NodeWork::begin() {
  group_.at_flag();
  group_.own_control_block().working.value.store(tag_, std::memory_order_seq_cst);
  is_working_ = true;
  if (is_abandoned()) {
    reached(Mark::abandoned_before_work);
    return stop_working();
  }
  bytes_of_turn_ = 0;
  group_.at_turn();
  return true;
}

bool NodeWork::goes_on(std::size_t bytes) {
  if (!is_working_) return true;
  bytes_of_turn_ += bytes;
  if (bytes_of_turn_ <= std::min(turn_bytes, group_.most_turn_bytes())) return true;
  bytes_of_turn_ = bytes;
  if (is_abandoned()) {
    reached(Mark::abandoned_between_turns);
    return false;
  }
  std::atomic<std::uint64_t>& turns = group_.own_control_block().turns.value;
  turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // only this rank writes it
  group_.at_turn();
  return true;
}

bool NodeWork::is_abandoned() const {
  // `>=`: while this rank was stopped, the producer may have abandoned a later operation
  return std::any_of(producers_.begin(), producers_.end(), [this](int producer) {
    return arrival_of(producer).abandoned.load(std::memory_order_seq_cst) >= tag_;
  });
}

bool NodeWork::end() {
  if (stop_working()) return true;
  reached(Mark::abandoned_after_work);
  return false;
}

bool NodeWork::stop_working() {
  group_.own_control_block().working.value.store(0, std::memory_order_release);
  is_working_ = false;
  // a producer's caller changes memory only after the producer has set `abandoned`; if this rank has read a changed
  // value, the fence ensures that the check after it sees `abandoned`
  std::atomic_thread_fence(std::memory_order_acquire);
  return !is_abandoned();
}

void NodeWork::tick() {
  group_.at_flag();
  std::atomic<std::uint64_t>& counter = group_.own_control_block().step_counter.value;
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool NodeWork::has_ticked(int member, std::size_t steps) const {
  return group_.control_block(member).step_counter.value.load(std::memory_order_acquire) >=
         arrival_of(member).step_counter().get() + steps;
}

std::vector<int> NodeWork::await_consumers() const {
  const auto is_in_work = [this](int consumer) {
    return group_.control_block(consumer).working.value.load(std::memory_order_seq_cst) == tag_;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  std::vector<int> late;
  for (const int consumer : consumers_) {
    Backoff backoff(Backoff::shared_core_spins);
    auto next_look = std::chrono::steady_clock::now();
    if (is_in_work(consumer)) reached(Mark::consumer_in_work);
    while (is_in_work(consumer)) {
      if (const auto now = std::chrono::steady_clock::now(); now >= next_look) {
        if (group_.has_ended(consumer)) {
          reached(Mark::consumer_ended);
          break;
        }
        group_.tell_wait(consumer);
        next_look = now + std::chrono::milliseconds(1);
      }
      if (group_.can_unshare() && std::chrono::steady_clock::now() > end) {
        reached(Mark::consumer_late);
        late.push_back(consumer);
        break;
      }
      backoff.pause();
    }
  }
  return late;
}

void NodeWork::abandon(OwnTable& table) noexcept {
  if (is_working_) static_cast<void>(stop_working());  // an exception has interrupted the work
  const std::vector<int> late = await_consumers();
  if (late.empty()) return;
  group_.staging().inputs.leak();
  group_.staging().results.leak();
  table.leak();
  const std::size_t bytes = table.unshare_outputs(group_);
  if (bytes == 0) return;
  reached(Mark::outputs_unshared);
  log_warning(
      "{} bytes of outputs of a failed collective are no longer in shared memory: a stopped process (rank{} {} of this "
      "node) may still write to them; later collectives on them are slower",
      bytes, late.size() == 1 ? "" : "s", fmt::join(late, ", "));
}

}  // namespace lockstep::detail
