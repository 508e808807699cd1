// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/node_agreement.hpp"

#include "base/processor.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::detail {
namespace {

static_assert(sizeof(Descriptor) <= ControlBlock::descriptor_bytes);

Descriptor descriptor_of(const ControlBlock& control_block, std::size_t slot) {
  Descriptor descriptor;
  std::memcpy(&descriptor, control_block.descriptors[slot].bytes.data(), sizeof(descriptor));
  return descriptor;
}

}  // namespace

NodeAgreement::NodeAgreement(NodeGroup& group, bool is_whole) : group_(group) {
  if (group.levels().count() > 1) climb_.emplace(group, is_whole);
  std::vector<int> ranks;
  if (climb_) {
    ranks.assign(climb_->neighbours().begin(), climb_->neighbours().end());
  } else {
    for (int rank = 0; rank < group.size(); ++rank) {
      if (rank != group.rank()) ranks.push_back(rank);
    }
  }
  for (std::size_t slot = 0; slot < ControlBlock::slots; ++slot) {
    for (const int rank : ranks) peers_[slot].push_back(&group.control_block(rank).arrivals[slot]);
  }
}

void NodeAgreement::do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) {
  tag_ = operation_tag(epoch, sequence);
  slot_ = ControlBlock::slot_of(tag_);
  hash_ = head.descriptor().hash;
  head_ = &head;
  next_ = 0;
  differs_ = false;
  is_shown_ = false;
  show();
}

bool NodeAgreement::show() {
  if (const std::uint64_t epoch = epoch_of_tag(tag_); epoch != followed_epoch_) {
    // if this rank has aborted twice, another rank may be two epochs behind and still use this slot: wait for that rank
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (group_.control_block(rank).epoch.value.load(std::memory_order_acquire) + 1 < epoch) return false;
    }
    followed_epoch_ = epoch;
  }
  ControlBlock& control_block = group_.own_control_block();
  Arrival& arrival = control_block.arrivals[slot_];
  arrival.hash = hash_;
  // a program that repeats its calls has the same descriptor in the slot already
  if (written_[slot_] != hash_ || written_places_[slot_] != head_->place()) {
    std::memcpy(control_block.descriptors[slot_].bytes.data(), &head_->descriptor(), sizeof(Descriptor));
    written_[slot_] = hash_;
    written_places_[slot_] = head_->place();
  }
  head_->arrive(tag_, arrival);
  if (climb_) climb_->open(tag_, *head_, arrival);
  group_.at_flag();
  arrival.tag.store(tag_, std::memory_order_release);
  group_.wake();
  is_shown_ = true;
  return true;
}

void NodeAgreement::enter_epoch(std::uint64_t epoch) noexcept {
  // the others take the epoch of a rank that has left for the one in which it has left
  if (group_.departure_of(group_.rank()) != Departure::none) return;
  group_.at_flag();
  group_.own_control_block().epoch.value.store(epoch, std::memory_order_release);
}

bool NodeAgreement::advance() {
  if (!is_shown_ && !show()) return false;
  group_.at_flag();
  const auto& peers = peers_[slot_];
  for (; next_ < peers.size(); ++next_) {
    const Arrival& arrival = *peers[next_];
    if (arrival.tag.load(std::memory_order_acquire) != tag_) return false;
    // a rank that has arrived and then abandoned the operation does not take part; its control message has the failure
    if (arrival.abandoned.load(std::memory_order_relaxed) == tag_) return false;
    differs_ = differs_ || arrival.hash.get() != hash_;
    if (climb_) group_.at_read(climb_->neighbours()[next_], &arrival, line_bytes);
  }
  return !climb_ || climb_->advance(differs_);
}

Summary NodeAgreement::summary() const {
  Summary summary;
  summary.lowest = {0, descriptor_of(group_.control_block(0), slot_)};
  for (int rank = 1; rank < group_.size() && summary.differing.rank < 0; ++rank) {
    const Descriptor descriptor = descriptor_of(group_.control_block(rank), slot_);
    if (descriptor.hash != summary.lowest.descriptor.hash) summary.differing = {rank, descriptor};
  }
  return summary;
}

std::int64_t NodeAgreement::last_sequence(int rank, std::uint64_t epoch) const {
  std::int64_t last = -1;
  for (const Arrival& arrival : group_.control_block(rank).arrivals) {
    const std::uint64_t tag = arrival.tag.load(std::memory_order_acquire);
    if (tag != 0 && epoch_of_tag(tag) == epoch) last = std::max(last, sequence_of_tag(tag));
  }
  return last;
}

std::vector<int> NodeAgreement::awaited() const {
  const std::uint64_t epoch = epoch_of_tag(tag_);
  std::vector<int> ranks;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    const bool has_come = is_shown_
                              ? last_sequence(rank, epoch) >= sequence_of_tag(tag_)
                              : group_.control_block(rank).epoch.value.load(std::memory_order_acquire) + 1 >= epoch;
    if (!has_come) ranks.push_back(rank);
  }
  return ranks.empty() && climb_ && is_shown_ ? climb_->slowest() : ranks;
}

void NodeAgreement::abandon() noexcept {
  group_.own_control_block().arrivals[slot_].abandoned.store(tag_, std::memory_order_seq_cst);
}

}  // namespace lockstep::detail
