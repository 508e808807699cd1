// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/node_failures.hpp"

#include "base/mark.hpp"

#include <atomic>
#include <cstddef>
#include <span>

namespace lockstep::detail {
namespace {

static_assert(sizeof(FailureRecord) <= ControlBlock::EndedEpoch::capacity);

/// The value of ControlBlock::first_to_fail: that `member` was the first to publish the end of an epoch.
constexpr int member_bits = 20;
constexpr std::uint64_t claim_of(std::uint64_t epoch, int member) {
  return (epoch + 1) << member_bits | static_cast<std::uint64_t>(member);
}
constexpr std::uint64_t epochs_of_claim(std::uint64_t claim) { return claim >> member_bits; }
constexpr int member_of_claim(std::uint64_t claim) {
  return static_cast<int>(claim & ((std::uint64_t{1} << member_bits) - 1));
}

ControlBlock::EndedEpoch& entry_of(ControlBlock& block, std::uint64_t epoch) {
  return block.ended_epochs[epoch % block.ended_epochs.size()];
}

/// The value of EndedEpoch::state: a record counts if its rank was the first of the node, or has found none before it.
constexpr std::uint64_t candidate_of(std::uint64_t epoch) { return 2 * (epoch + 1); }
constexpr std::uint64_t final_of(std::uint64_t epoch) { return 2 * (epoch + 1) + 1; }

}  // namespace

EpochEnd NodeFailures::publish(std::uint64_t epoch, const EpochEnd& own) {
  // after its departure, the memory of other ranks may be used again
  if (group_ == nullptr || group_->departure_of(group_->rank()) != Departure::none) return own;
  std::atomic<std::uint64_t>& state = entry_of(group_->own_control_block(), epoch).state;
  std::optional<EpochEnd> first = first_end(epoch);
  if (first && state.load(std::memory_order_relaxed) == final_of(epoch)) return {own.sequence, first->failure};
  if (!first) {
    write(epoch, own, candidate_of(epoch));
    std::atomic<std::uint64_t>& word = group_->control_block(0).first_to_fail.value;
    group_->at_flag();
    std::uint64_t claim = word.load(std::memory_order_acquire);
    while (epochs_of_claim(claim) < epoch + 1) {
      if (!word.compare_exchange_weak(claim, claim_of(epoch, group_->rank()), std::memory_order_acq_rel)) continue;
      state.store(final_of(epoch), std::memory_order_release);
      group_->wake();
      return own;
    }
    first = first_end(epoch);
    reached(Mark::claim_lost);
  }
  const EpochEnd end{own.sequence, first ? first->failure : own.failure};
  write(epoch, end, final_of(epoch));
  group_->wake();
  return end;
}

/// A reader that has read a part of the new words finds another state behind them.
void NodeFailures::write(std::uint64_t epoch, const EpochEnd& end, std::uint64_t state) noexcept {
  const FailureRecord record = record_of(end.failure);
  ControlBlock::EndedEpoch& entry = entry_of(group_->own_control_block(), epoch);
  entry.state.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.sequence = end.sequence;
  entry.record.put(std::as_bytes(std::span(&record, 1)));
  group_->at_flag();
  entry.state.store(state, std::memory_order_release);
}

std::optional<Failure> NodeFailures::find(std::uint64_t epoch, std::int64_t sequence) const {
  if (group_ == nullptr) return std::nullopt;
  const std::optional<EpochEnd> end = first_end(epoch);
  if (!end || sequence < end->sequence) return std::nullopt;
  return end->failure;
}

std::optional<EpochEnd> NodeFailures::first_end(std::uint64_t epoch) const {
  const std::uint64_t claim = group_->control_block(0).first_to_fail.value.load(std::memory_order_acquire);
  if (epochs_of_claim(claim) < epoch + 1) return std::nullopt;
  if (epochs_of_claim(claim) == epoch + 1) return read(member_of_claim(claim), epoch, candidate_of(epoch));
  // the other ranks have gone on, and another epoch has ended; each rank has published with what it ended this one
  reached(Mark::later_epoch_ended);
  for (int member = 0; member < group_->size(); ++member) {
    if (auto end = read(member, epoch, final_of(epoch))) return end;
  }
  return std::nullopt;
}

/// The record of `member`, if its state is `least` or a later one of this epoch.
std::optional<EpochEnd> NodeFailures::read(int member, std::uint64_t epoch, std::uint64_t least) const {
  if (member >= group_->size()) return std::nullopt;
  const ControlBlock::EndedEpoch& entry = entry_of(group_->control_block(member), epoch);
  const std::uint64_t state = entry.state.load(std::memory_order_acquire);
  if (state < least || state > final_of(epoch)) return std::nullopt;
  group_->at_flag();
  FailureRecord record;
  const std::int64_t sequence = entry.sequence.get();
  entry.record.get(std::as_writable_bytes(std::span(&record, 1)));
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint64_t now = entry.state.load(std::memory_order_relaxed);
  // the words of a candidate that has become final are the same
  if (now != state && (state != candidate_of(epoch) || now != final_of(epoch))) return std::nullopt;
  return EpochEnd{sequence, failure_of(record)};
}

}  // namespace lockstep::detail
