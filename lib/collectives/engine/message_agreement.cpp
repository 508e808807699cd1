// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/message_agreement.hpp"

#include "schedule/dissemination.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::detail {

void MessageAgreement::do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) {
  epoch_ = epoch;
  sequence_ = sequence;
  round_ = 0;
  summary_ = {};
  summary_.lowest = {rank_, head.descriptor()};
  send();
}

bool MessageAgreement::advance() {
  while (round_ < dissemination_rounds(size_)) {
    const int source = dissemination_source(rank_, round_, size_);
    const auto received = control_.take_header(source, epoch_, sequence_, static_cast<std::uint32_t>(round_));
    if (!received) return false;
    summary_ = merge(summary_, *received);
    ++round_;
    send();
  }
  return true;
}

void MessageAgreement::send() {
  if (round_ >= dissemination_rounds(size_)) return;
  control_.send_header(dissemination_target(rank_, round_, size_), epoch_, sequence_,
                       static_cast<std::uint32_t>(round_), summary_);
}

std::vector<int> MessageAgreement::header_targets() const {
  std::vector<int> targets;
  for (int round = 0; round < dissemination_rounds(size_); ++round)
    targets.push_back(dissemination_target(rank_, round, size_));
  return targets;
}

static_assert(sizeof(Summary) <= ControlBlock::verdict_bytes);

HostsAgreement::HostsAgreement(ControlChannel& control, NodeGroup& group, int rank, std::span<const int> node_leaders)
    : control_(control), group_(group), node_(group) {
  const int leader = node_leaders[static_cast<std::size_t>(rank)];
  for (int other = 0; other < static_cast<int>(node_leaders.size()); ++other) {
    const int leader_of_other = node_leaders[static_cast<std::size_t>(other)];
    if (leader_of_other == leader) members_.push_back(other);
    if (leader_of_other != other) continue;
    if (other == leader) node_index_ = static_cast<int>(leaders_.size());
    leaders_.push_back(other);
  }
}

void HostsAgreement::do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) {
  epoch_ = epoch;
  sequence_ = sequence;
  tag_ = operation_tag(epoch, sequence);
  round_ = 0;
  summary_ = {};
  phase_ = Phase::in_node;
  node_.open(epoch, sequence, head);
}

bool HostsAgreement::advance() {
  if (phase_ == Phase::in_node) {
    if (!node_.advance()) return false;
    phase_ = Phase::between_nodes;
    if (group_.rank() == 0) {
      summary_ = node_.summary();
      for (Side* const side : {&summary_.lowest, &summary_.differing}) {
        if (side->rank >= 0) side->rank = members_[static_cast<std::size_t>(side->rank)];
      }
      send_to_leader();
    }
  }
  if (phase_ == Phase::between_nodes) {
    if (!(group_.rank() == 0 ? advance_between_nodes() : read_verdict())) return false;
    phase_ = Phase::known;
  }
  return true;
}

bool HostsAgreement::advance_between_nodes() {
  const auto nodes = static_cast<int>(leaders_.size());
  while (round_ < dissemination_rounds(nodes)) {
    const int source = dissemination_source(node_index_, round_, nodes);
    const auto received = control_.take_header(leaders_[static_cast<std::size_t>(source)], epoch_, sequence_,
                                               static_cast<std::uint32_t>(round_));
    if (!received) return false;
    summary_ = merge(summary_, *received);
    ++round_;
    send_to_leader();
  }
  publish_verdict();
  return true;
}

void HostsAgreement::send_to_leader() {
  const auto nodes = static_cast<int>(leaders_.size());
  if (round_ >= dissemination_rounds(nodes)) return;
  const int target = dissemination_target(node_index_, round_, nodes);
  control_.send_header(leaders_[static_cast<std::size_t>(target)], epoch_, sequence_,
                       static_cast<std::uint32_t>(round_), summary_);
}

void HostsAgreement::publish_verdict() {
  ControlBlock::Verdict& verdict = group_.own_control_block().verdicts[ControlBlock::slot_of(tag_)];
  verdict.agree = all_agree() ? 1 : 0;
  if (!all_agree()) std::memcpy(verdict.summary.data(), &summary_, sizeof(summary_));
  group_.at_flag();
  verdict.tag.store(tag_, std::memory_order_release);
}

bool HostsAgreement::read_verdict() {
  group_.at_flag();
  const ControlBlock::Verdict& verdict = group_.control_block(0).verdicts[ControlBlock::slot_of(tag_)];
  if (verdict.tag.load(std::memory_order_acquire) != tag_) return false;
  if (verdict.agree == 0) std::memcpy(&summary_, verdict.summary.data(), sizeof(summary_));
  return true;
}

std::vector<int> HostsAgreement::header_targets() const {
  std::vector<int> targets;
  if (group_.rank() != 0) return targets;
  const auto nodes = static_cast<int>(leaders_.size());
  for (int round = 0; round < dissemination_rounds(nodes); ++round)
    targets.push_back(leaders_[static_cast<std::size_t>(dissemination_target(node_index_, round, nodes))]);
  return targets;
}

int HostsAgreement::member_of(int rank) const {
  const auto found = std::find(members_.begin(), members_.end(), rank);
  return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
}

bool HostsAgreement::has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const int member = member_of(rank);
  return member >= 0 ? node_.has_come(member, epoch, sequence) : control_.has_come(rank, epoch, sequence);
}

std::int64_t HostsAgreement::last_sequence(int rank, std::uint64_t epoch) const {
  const int member = member_of(rank);
  return member >= 0 ? node_.last_sequence(member, epoch) : control_.last_sequence(rank);
}

}  // namespace lockstep::detail
