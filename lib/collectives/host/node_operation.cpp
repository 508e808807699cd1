// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_operation.hpp"

#include "collectives/call/host_item.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::detail {

std::size_t bytes_of_one_input(std::span<const HostItem> items) {
  std::size_t bytes = 0;
  for (const HostItem& item : items) bytes += static_cast<std::size_t>(item.count()) * size_of(item.dtype);
  return bytes;
}

ControlBlockUse control_block_use(std::span<const NodeRound> rounds, int most_inputs, const NodeTuning& tuning) {
  const std::size_t bytes = static_cast<std::size_t>(most_inputs) * rounds.front().input_bytes;
  const bool fits = rounds.size() == 1 && bytes <= ControlBlock::most_payload_bytes;
  const bool always_flat = fits && bytes <= std::max<std::size_t>(tuning.flat_bytes, 64);
  return {fits, always_flat, false};
}

NodeOperation::NodeOperation(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                             std::vector<HostItem> items, std::span<const HostItem> published, Cut cut, NodeRoles roles,
                             const NodeTuning& tuning)
    : Operation(descriptor),
      layout_(layout),
      group_(group),
      roles_(std::move(roles)),
      work_(group, roles_.producers, roles_.consumers),
      rank_(group.rank()),
      items_(std::move(items)),
      input_bytes_(bytes_of_one_input(items_)),
      cut_(std::move(cut)),
      own_(group, published, descriptor.op),
      peers_(static_cast<std::size_t>(layout.ranks())) {
  if (input_bytes_ > ControlBlock::most_payload_bytes) return;
  need_rounds();
  control_block_use_ =
      control_block_use(rounds_, *std::max_element(roles_.inputs.begin(), roles_.inputs.end()), tuning);
  const bool has_one = items_.size() == 1 &&
                       std::all_of(roles_.inputs.begin(), roles_.inputs.end(), [](int inputs) { return inputs <= 1; });
  if (!control_block_use_.always_flat || !has_one || input_bytes_ > decltype(Arrival::data)::capacity) return;
  control_block_use_.is_beside_tag = true;
  beside_tags_.resize(static_cast<std::size_t>(layout.ranks()));
}

void NodeOperation::take_inputs_beside_tags() {
  for (const int rank : roles_.producers)
    work_.arrival_of(rank).data.get(std::span(beside_tags_[static_cast<std::size_t>(rank)]).first(input_bytes_));
}

/// Makes the rounds only when they are needed: for large items the list of rounds is long, and memory that is used in
/// place needs no rounds.
void NodeOperation::need_rounds() {
  if (!rounds_.empty()) return;
  rounds_ = cut_();
  for (const NodeRound& round : rounds_) {
    most_round_bytes_ = std::max(most_round_bytes_, round.input_bytes);
    most_result_bytes_ = std::max(most_result_bytes_, round.most_result_bytes);
  }
}

void NodeOperation::arrive(std::uint64_t tag, Arrival& arrival) {
  work_.arrive(tag, arrival);
  arrival.flags = 0;
  mode_ = control_block_use_.always_flat ? Mode::flat : Mode::staged;
  round_ = 0;
  phase_ = Phase::gather;
  next_ = 0;
  if (inputs_of(rank_) == 0) return;
  if (control_block_use_.is_beside_tag) {
    arrival.data.put({static_cast<const std::byte*>(items_.front().inputs.front()), input_bytes_});
    return;
  }
  if (control_block_use_.always_flat) {
    stage_to_payload(arrival);
    return;
  }
  own_.refresh(group_);
  arrival.table() = static_cast<std::uint64_t>(own_.address());
  arrival.table_id() = own_.id();
  if (own_.is_visible()) return;
  arrival.flags = flag_staged;
  if (control_block_use_.fits) {
    stage_to_payload(arrival);
    return;
  }
  need_rounds();
  group_.reserve_inputs(2 * staging_stride(rank_));
  const NodeMemory& staging = group_.staging().inputs;
  arrival.staging() = static_cast<std::uint64_t>(group_.address_of(staging.data(), 2 * staging_stride(rank_)));
  stage_inputs(rounds_.front(), staging.data(), Staging::what_others_need);
}

void NodeOperation::stage_to_payload(Arrival& arrival) {
  const NodeGroup::Payload payload = group_.reserve_payload(work_.slot(), staging_stride(rank_));
  arrival.staging() = static_cast<std::uint64_t>(payload.address);
  stage_inputs(rounds_.front(), payload.data, Staging::everything);
}

void NodeOperation::start(Transport&, Workspace&) {
  if (control_block_use_.always_flat) return;
  bool any_staged = false;
  bool all_staged = true;
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    if (inputs_of(rank) == 0) continue;
    const bool staged = rank == rank_ ? !own_.is_visible() : is_staged(rank);
    any_staged = any_staged || staged;
    all_staged = all_staged && staged;
  }
  mode_ = !any_staged ? Mode::direct : (all_staged && control_block_use_.fits ? Mode::flat : Mode::staged);
  if (mode_ == Mode::staged) need_rounds();
}

// Steps (NodeWork::tick) are counted from the rank's arrival. In round k, step 2k+1 is the work of the rank. Step 2k+2
// stages the rank's inputs of round k+1; the last round has no such step.

bool NodeOperation::advance(Transport&, Workspace&) {
  if (mode_ == Mode::flat) {
    if (control_block_use_.is_beside_tag) take_inputs_beside_tags();
    do_flat();
    return true;
  }
  const std::size_t rounds = mode_ == Mode::direct ? 1 : rounds_.size();
  while (round_ < rounds) {
    if (phase_ == Phase::gather) {
      // the arrival of a rank implies that its inputs of round 0 are ready
      if (round_ > 0 && !all_clocks_reached(roles_.producers, 2 * round_)) return false;
      if (!work_.begin()) return false;
      const bool has_changed = look_up_producers();
      mode_ == Mode::direct ? do_direct(has_changed) : do_round();
      if (!work_.end()) return false;
      work_.tick();
      if (round_ + 1 < rounds) {
        if (!own_.is_visible()) {
          std::byte* const staging = group_.staging().inputs.data() + (round_ + 1) % 2 * staging_stride(rank_);
          stage_inputs(rounds_[round_ + 1], staging, Staging::what_others_need);
        }
        work_.tick();
      }
      phase_ = Phase::spread;
    }
    if (!all_clocks_reached(roles_.consumers, 2 * round_ + 1)) return false;
    if (mode_ == Mode::staged) finish_round();
    phase_ = Phase::gather;
    ++round_;
  }
  own_.require_outputs(group_);
  return true;
}

/// The count includes the steps of all ranks of the node, because a rank that has done its own work waits for the other
/// ranks. The numbers of bytes are for one input of each item; only rounds are counted, so they are unknown in
/// Mode::direct, in which a rank that waits has done all its work.
DataProgress NodeOperation::progress(const Transport&) const noexcept {
  DataProgress progress{.count = group_.steps_of_all()};
  if (mode_ != Mode::staged) return progress;
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    progress.total_bytes += rounds_[i].input_bytes;
    if (i < round_) progress.moved_bytes += rounds_[i].input_bytes;
  }
  return progress;
}

std::vector<int> NodeOperation::awaited_ranks() const {
  if (mode_ == Mode::flat) return {};
  const bool is_gathering = phase_ == Phase::gather;
  std::vector<int> ranks;
  for (const int rank : is_gathering ? roles_.producers : roles_.consumers) {
    if (!work_.has_ticked(rank, is_gathering ? 2 * round_ : 2 * round_ + 1)) ranks.push_back(rank);
  }
  return ranks;
}

bool NodeOperation::abandon(Transport&) noexcept {
  if (mode_ != Mode::flat) work_.abandon(own_);
  return false;
}

bool NodeOperation::is_staged(int rank) const { return work_.arrival_of(rank).flags.get() == flag_staged; }

const std::byte* NodeOperation::visible_input(int rank, const TensorRange& range, std::size_t i) const {
  const auto* const base =
      rank == rank_ ? static_cast<const std::byte*>(items_[range.item].inputs[i]) : table_of(rank).input(range.item, i);
  return base == nullptr ? nullptr : at(base, range.begin, items_[range.item].dtype);
}

const std::byte* NodeOperation::input_of_round(int rank, const StagedRange& staged, std::size_t i) const {
  const std::byte* const visible = visible_input(rank, staged.range, i);
  return visible != nullptr ? visible : staging_of(rank) + i * round().input_bytes + staged.input_offset;
}

const std::byte* NodeOperation::payload_input(int rank, const StagedRange& staged, std::size_t i) const {
  const TensorRange& range = staged.range;
  if (rank == rank_)
    return at(static_cast<const std::byte*>(items_[range.item].inputs[i]), range.begin, items_[range.item].dtype);
  if (control_block_use_.is_beside_tag)
    return at(beside_tags_[static_cast<std::size_t>(rank)].data(), range.begin, items_[range.item].dtype);
  return staging_of(rank) + i * rounds_.front().input_bytes + staged.input_offset;
}

/// The largest number of bytes that `rank` stages in one round.
std::size_t NodeOperation::staging_stride(int rank) const {
  return most_round_bytes_ * static_cast<std::size_t>(inputs_of(rank));
}

/// The address of the staged inputs of `rank` in this round.
const std::byte* NodeOperation::staging_of(int rank) const {
  const std::size_t stride = staging_stride(rank);
  const std::size_t strides = control_block_use_.fits ? 1 : 2;
  return group_.resolve(rank, static_cast<NodeAddress>(work_.arrival_of(rank).staging().get()), strides * stride) +
         round_ % strides * stride;
}

/// Copies this rank's inputs of `round` to memory that the other ranks read.
void NodeOperation::stage_inputs(const NodeRound& round, std::byte* staging, Staging what) {
  for (std::size_t owner = 0; owner < round.slices.size(); ++owner) {
    if (what == Staging::what_others_need && static_cast<int>(owner) == private_owner()) continue;
    for (const StagedRange& staged : round.slices[owner]) {
      const TensorRange& range = staged.range;
      const HostItem& item = items_[range.item];
      const std::size_t bytes = static_cast<std::size_t>(range.end - range.begin) * size_of(item.dtype);
      for (std::size_t i = 0; i < item.inputs.size(); ++i) {
        if (what == Staging::what_others_need && own_.input(range.item, i) != NodeAddress::none) continue;
        std::memcpy(staging + i * round.input_bytes + staged.input_offset,
                    at(static_cast<const std::byte*>(item.inputs[i]), range.begin, item.dtype), bytes);
      }
    }
  }
}

/// Looks up the buffers of the producers. Returns whether a buffer may have a different address than at the previous
/// call; the first call returns true.
bool NodeOperation::look_up_producers() {
  bool has_changed = !std::exchange(has_looked_up_, true);
  for (const int rank : roles_.producers) {
    PeerTable& peer = peers_[static_cast<std::size_t>(rank)];
    const Arrival& arrival = work_.arrival_of(rank);
    if (inputs_of(rank) == 0 || peer.id() == arrival.table_id().get()) continue;
    peer.read(group_, rank, static_cast<NodeAddress>(arrival.table().get()), arrival.table_id().get(), items_,
              inputs_of(rank), descriptor().op);
    has_changed = true;
  }
  return has_changed;
}

bool NodeOperation::all_clocks_reached(const std::vector<int>& ranks, std::size_t steps) {
  group_.at_flag();
  for (; next_ < ranks.size(); ++next_) {
    if (!work_.has_ticked(ranks[next_], steps)) return false;
  }
  next_ = 0;
  return true;
}

}  // namespace lockstep::detail
