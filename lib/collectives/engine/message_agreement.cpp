// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/message_agreement.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::detail {

static_assert(sizeof(Summary) <= ControlBlock::verdict_bytes);
static_assert(sizeof(AgreementHeader) + most_carried_bytes <= most_message_bytes);

MessageAgreement::MessageAgreement(ControlChannel& control, NodeGroup* group, int rank,
                                   std::span<const int> node_leaders)
    : control_(control), group_(group), rank_(rank) {
  if (group_ != nullptr) node_.emplace(*group_, false);
  const auto leader_of = [&](int other) {
    return group_ == nullptr ? other : node_leaders[static_cast<std::size_t>(other)];
  };
  int node = 0;
  for (int other = 0; other < static_cast<int>(node_leaders.size()); ++other) {
    if (leader_of(other) == leader_of(rank)) members_.push_back(other);
    if (leader_of(other) != other) continue;
    if (other == leader_of(rank)) node = static_cast<int>(leaders_.size());
    leaders_.push_back(other);
  }
  if (leader_of(rank) == rank) rounds_ = AgreementPattern(static_cast<int>(leaders_.size())).rounds(node);
}

void MessageAgreement::enter_epoch(std::uint64_t epoch) noexcept {
  if (node_) node_->enter_epoch(epoch);
}

void MessageAgreement::abandon() noexcept {
  if (node_) node_->abandon();
}

void MessageAgreement::do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) {
  head_ = &head;
  epoch_ = epoch;
  sequence_ = sequence;
  tag_ = operation_tag(epoch, sequence);
  differs_ = false;
  summary_ = {};
  phase_ = Phase::in_node;
  if (node_) {
    node_->open(epoch, sequence, head);
  } else {
    begin_headers();
  }
}

bool MessageAgreement::advance() {
  if (phase_ == Phase::in_node) {
    if (!node_->advance()) return false;
    if (group_->rank() == 0) {
      begin_headers();
    } else {
      phase_ = Phase::result_of_leader;
    }
  }
  if (phase_ == Phase::headers && !advance_headers()) return false;
  if (phase_ == Phase::summaries && !advance_summaries()) return false;
  if (phase_ == Phase::result_of_leader && !read_verdict()) return false;
  return true;
}

// ---- headers

void MessageAgreement::begin_headers() {
  phase_ = Phase::headers;
  round_ = next_ = 0;
  differs_ = node_ && !node_->all_agree();
  carried_ = differs_ || rounds_.empty() ? nullptr : head_->carried();
  message_.resize(sizeof(AgreementHeader) + (carried_ != nullptr ? carried_->own_bytes() : 0));
  if (carried_ != nullptr) {
    carried_->pack(part().data());
    if (members_.size() > 1) {
      parts_.assign(1, part().data());
      for (int member = 1; member < group_->size(); ++member) parts_.push_back(part_of(member));
      joined_.resize(sizeof(AgreementHeader) + carried_->bytes_after(0));
      carried_->join(0, parts_, joined_.data() + sizeof(AgreementHeader));
      std::swap(message_, joined_);
    }
  }
  send_header();
}

void MessageAgreement::send_header() {
  if (round_ == rounds_.size()) return;
  if (differs_) message_.resize(sizeof(AgreementHeader));
  const AgreementHeader header{.round = static_cast<std::uint32_t>(round_),
                               .epoch = epoch_,
                               .sequence = sequence_,
                               .hash = head_->descriptor().hash,
                               .differs = differs_ ? 1U : 0U};
  std::memcpy(message_.data(), &header, sizeof(header));
  headers_.assign(rounds_[round_].sources.size(), std::nullopt);
  for (const int target : rounds_[round_].targets) control_.send_header(leader(target), message_);
}

template <class Take>
bool MessageAgreement::take_round(const Take& take) {
  const AgreementRound& round = rounds_[round_];
  for (; next_ < round.sources.size(); ++next_) {
    if (static_cast<int>(next_) != round.group && !take(leader(round.sources[next_]))) return false;
  }
  return true;
}

bool MessageAgreement::advance_headers() {
  const auto take = [this](int source) {
    auto& received = headers_[next_];
    received = control_.take_header(source, epoch_, sequence_, static_cast<std::uint32_t>(round_));
    if (!received) return false;
    differs_ = differs_ || received->header.differs != 0 || received->header.hash != head_->descriptor().hash;
    return true;
  };
  for (; round_ < rounds_.size(); ++round_, next_ = 0, send_header()) {
    if (!take_round(take)) return false;
    const AgreementRound& round = rounds_[round_];
    if (carried_ != nullptr && !differs_ && round.sources.size() > 1) join_parts(round);
  }
  if (differs_) {
    begin_summaries();
  } else {
    conclude();
  }
  return true;
}

void MessageAgreement::join_parts(const AgreementRound& round) {
  parts_.clear();
  for (std::size_t group = 0; group < round.sources.size(); ++group) {
    const std::span<const std::byte> of_group =
        headers_[group] ? std::span(std::as_const(headers_[group]->data)) : part();
    LOCKSTEP_CHECK(of_group.size() == carried_->part_bytes(round_ + 1, group));
    parts_.push_back(of_group.data());
  }
  joined_.resize(sizeof(AgreementHeader) + carried_->bytes_after(round_ + 1));
  carried_->join(round_ + 1, parts_, joined_.data() + sizeof(AgreementHeader));
  std::swap(message_, joined_);
}

// ---- descriptors, if calls differ

void MessageAgreement::begin_summaries() {
  phase_ = Phase::summaries;
  round_ = next_ = 0;
  if (node_) {
    summary_ = node_->summary();
    for (Side* const side : {&summary_.lowest, &summary_.differing}) {
      if (side->rank >= 0) side->rank = members_[static_cast<std::size_t>(side->rank)];
    }
  } else {
    summary_.lowest = {rank_, head_->descriptor()};
  }
  send_summary();
}

void MessageAgreement::send_summary() {
  if (round_ == rounds_.size()) return;
  for (const int target : rounds_[round_].targets)
    control_.send_summary(leader(target), epoch_, sequence_, static_cast<std::uint32_t>(round_), summary_);
}

bool MessageAgreement::advance_summaries() {
  const auto take = [this](int source) {
    const auto received = control_.take_summary(source, epoch_, sequence_, static_cast<std::uint32_t>(round_));
    if (received) summary_ = merge(summary_, *received);
    return received.has_value();
  };
  for (; round_ < rounds_.size(); ++round_, next_ = 0, send_summary()) {
    if (!take_round(take)) return false;
  }
  LOCKSTEP_CHECK(summary_.differing.rank >= 0);
  conclude();
  return true;
}

// ---- the result, inside the node

void MessageAgreement::conclude() {
  phase_ = Phase::known;
  if (members_.size() > 1) publish_verdict();
  if (carried_ != nullptr && !differs_) carried_->deliver(part().data());
}

/// The part of the data that another rank of the node has written.
const std::byte* MessageAgreement::part_of(int member) const {
  const Arrival& arrival = group_->control_block(member).arrivals[ControlBlock::slot_of(tag_)];
  return group_->resolve(member, static_cast<NodeAddress>(arrival.staging().get()),
                         carried_->part_bytes(0, static_cast<std::size_t>(member)));
}

void MessageAgreement::publish_verdict() {
  ControlBlock::Verdict& verdict = group_->own_control_block().verdicts[ControlBlock::slot_of(tag_)];
  verdict.agree = differs_ ? 0 : 1;
  if (differs_) std::memcpy(verdict.summary.data(), &summary_, sizeof(summary_));
  if (carried_ != nullptr && !differs_) {
    // the leader keeps its own part in message_, and the other ranks have read the previous result in this memory
    // before they arrived at this operation
    const NodeGroup::Payload& result = group_->payload(ControlBlock::slot_of(tag_));
    std::copy(part().begin(), part().end(), result.data);
    verdict.result = static_cast<std::uint64_t>(result.address);
  }
  group_->at_flag();
  verdict.tag.store(tag_, std::memory_order_release);
}

bool MessageAgreement::read_verdict() {
  group_->at_flag();
  const ControlBlock::Verdict& verdict = group_->control_block(0).verdicts[ControlBlock::slot_of(tag_)];
  if (verdict.tag.load(std::memory_order_acquire) != tag_) return false;
  phase_ = Phase::known;
  differs_ = verdict.agree == 0;
  if (differs_) {
    std::memcpy(&summary_, verdict.summary.data(), sizeof(summary_));
  } else if (CarriedData* const carried = head_->carried()) {
    carried->deliver(group_->resolve(0, static_cast<NodeAddress>(verdict.result.get()), 1));
  }
  return true;
}

// ---- which ranks have arrived

std::vector<int> MessageAgreement::awaited() const {
  std::vector<int> ranks;
  switch (phase_) {
    case Phase::in_node:
      for (const int member : node_->awaited()) ranks.push_back(members_[static_cast<std::size_t>(member)]);
      break;
    case Phase::headers:
    case Phase::summaries:
      for (std::size_t k = next_; k < rounds_[round_].sources.size(); ++k) {
        const int source = leader(rounds_[round_].sources[k]);
        if (source != rank_ && (k == next_ || !control_.has_come(source, epoch_, sequence_))) ranks.push_back(source);
      }
      break;
    case Phase::result_of_leader: ranks.push_back(members_.front()); break;
    case Phase::known: break;
  }
  return ranks;
}

MessageAgreement::HeaderPeers MessageAgreement::header_peers() const {
  HeaderPeers peers;
  for (const AgreementRound& round : rounds_) {
    for (const int target : round.targets) peers.targets.push_back(leader(target));
    for (std::size_t group = 0; group < round.sources.size(); ++group) {
      if (static_cast<int>(group) != round.group) peers.sources.push_back(leader(round.sources[group]));
    }
  }
  return peers;
}

int MessageAgreement::member_of(int rank) const {
  if (!node_) return -1;
  const auto found = std::find(members_.begin(), members_.end(), rank);
  return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
}

bool MessageAgreement::has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const int member = member_of(rank);
  return member >= 0 ? node_->has_come(member, epoch, sequence) : control_.has_come(rank, epoch, sequence);
}

std::int64_t MessageAgreement::last_sequence(int rank, std::uint64_t epoch) const {
  const int member = member_of(rank);
  return member >= 0 ? node_->last_sequence(member, epoch) : control_.last_sequence(rank);
}

}  // namespace lockstep::detail
