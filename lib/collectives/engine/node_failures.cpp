// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/node_failures.hpp"

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

}  // namespace

EpochEnd NodeFailures::publish(std::uint64_t epoch, const EpochEnd& own) {
  if (group_ == nullptr) return own;
  std::optional<EpochEnd> first = first_end(epoch);
  const auto& entry = entry_of(group_->own_control_block(), epoch);
  const bool has_published = entry.epochs.load(std::memory_order_relaxed) == epoch + 1;
  if (!first) {
    write(epoch, own);
    std::atomic<std::uint64_t>& word = group_->control_block(0).first_to_fail.value;
    group_->at_flag();
    std::uint64_t claim = word.load(std::memory_order_acquire);
    while (epochs_of_claim(claim) < epoch + 1) {
      if (word.compare_exchange_weak(claim, claim_of(epoch, group_->rank()), std::memory_order_acq_rel)) return own;
    }
    first = first_end(epoch);
  }
  const EpochEnd end{own.sequence, first ? first->failure : own.failure};
  // for ranks that are behind by more than one epoch
  if (!has_published) write(epoch, end);
  return end;
}

/// A reader that has read a part of the new words finds another number behind them.
void NodeFailures::write(std::uint64_t epoch, const EpochEnd& end) noexcept {
  const FailureRecord record = record_of(end.failure);
  ControlBlock::EndedEpoch& entry = entry_of(group_->own_control_block(), epoch);
  entry.epochs.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.sequence = end.sequence;
  entry.record.put(std::as_bytes(std::span(&record, 1)));
  group_->at_flag();
  entry.epochs.store(epoch + 1, std::memory_order_release);
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
  if (epochs_of_claim(claim) == epoch + 1) return read(member_of_claim(claim), epoch);
  // the other ranks have gone on, and another epoch has ended; each rank has published with what it ended this one
  for (int member = 0; member < group_->size(); ++member) {
    if (auto end = read(member, epoch)) return end;
  }
  return std::nullopt;
}

std::optional<EpochEnd> NodeFailures::read(int member, std::uint64_t epoch) const {
  const ControlBlock::EndedEpoch& entry = entry_of(group_->control_block(member), epoch);
  if (entry.epochs.load(std::memory_order_acquire) != epoch + 1) return std::nullopt;
  FailureRecord record;
  const std::int64_t sequence = entry.sequence.get();
  entry.record.get(std::as_writable_bytes(std::span(&record, 1)));
  std::atomic_thread_fence(std::memory_order_acquire);
  if (entry.epochs.load(std::memory_order_relaxed) != epoch + 1) return std::nullopt;
  return EpochEnd{sequence, failure_of(record)};
}

}  // namespace lockstep::detail
