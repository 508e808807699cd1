// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_operation.hpp"

#include "collectives/call/host_item.hpp"
#include "transport/shm/flag_delay.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::detail {

ControlBlockUse control_block_use(std::span<const NodeRound> rounds, int most_inputs, const NodeTuning& tuning) {
  const std::size_t bytes = static_cast<std::size_t>(most_inputs) * rounds.front().input_bytes;
  const bool fits = rounds.size() == 1 && bytes <= ControlBlock::payload_bytes;
  return {fits, fits && bytes <= std::max<std::size_t>(tuning.flat_bytes, 64)};
}

NodeOperation::NodeOperation(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                             std::vector<HostItem> items, std::span<const HostItem> shown,
                             std::vector<NodeRound> rounds, NodeRoles roles, const NodeTuning& tuning)
    : Operation(descriptor),
      layout_(layout),
      group_(group),
      work_(group),
      rank_(group.rank()),
      items_(std::move(items)),
      rounds_(std::move(rounds)),
      roles_(std::move(roles)),
      control_block_use_(
          control_block_use(rounds_, *std::max_element(roles_.inputs.begin(), roles_.inputs.end()), tuning)),
      own_(group, shown, descriptor.op),
      peers_(static_cast<std::size_t>(layout.ranks())) {
  for (const NodeRound& round : rounds_) most_round_bytes_ = std::max(most_round_bytes_, round.input_bytes);
}

void NodeOperation::arrive(std::uint64_t tag, Arrival& arrival) {
  work_.arrive(tag, arrival);
  arrival.flags = 0;
  mode_ = control_block_use_.always_flat ? Mode::flat : Mode::staged;
  round_ = 0;
  phase_ = Phase::gather;
  next_ = 0;
  if (inputs_of(rank_) == 0) return;
  if (control_block_use_.always_flat) {
    copy_in(rounds_.front(), own_payload(), Stage::everything);
    return;
  }
  arrival.table = static_cast<std::uint64_t>(own_.address());
  arrival.table_id = own_.id();
  if (own_.is_visible()) return;
  arrival.flags = flag_staged;
  if (control_block_use_.fits) {
    copy_in(rounds_.front(), own_payload(), Stage::everything);
    return;
  }
  NodeMemory& staging = group_.staging().inputs;
  group_.reserve(staging, 2 * staging_stride(rank_));
  arrival.staging = static_cast<std::uint64_t>(group_.address_of(staging.data(), 2 * staging_stride(rank_)));
  copy_in(rounds_.front(), staging.data(), Stage::what_others_need);
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
}

// Clocks: in round k a rank does its work and ticks (2k + 1 since its arrival), then has its inputs of the next round
// ready and ticks again (2k + 2). In the last round there is no second tick.

bool NodeOperation::advance(Transport&, Workspace&) {
  if (mode_ == Mode::flat) {
    do_flat();
    return true;
  }
  const std::size_t rounds = mode_ == Mode::direct ? 1 : rounds_.size();
  while (round_ < rounds) {
    if (phase_ == Phase::gather) {
      // arrivals say that the first round is ready
      if (round_ > 0 && !all_clocks_reached(roles_.givers, 2 * round_)) return false;
      if (!work_.begin(roles_.givers)) return false;
      const bool has_changed = look_up_givers();
      mode_ == Mode::direct ? do_direct(has_changed) : do_round();
      work_.end();
      work_.tick();
      if (round_ + 1 < rounds) {
        if (!own_.is_visible()) {
          std::byte* const staging = group_.staging().inputs.data() + (round_ + 1) % 2 * staging_stride(rank_);
          copy_in(rounds_[round_ + 1], staging, Stage::what_others_need);
        }
        work_.tick();
      }
      phase_ = Phase::spread;
    }
    if (!all_clocks_reached(roles_.takers, 2 * round_ + 1)) return false;
    if (mode_ == Mode::staged) finish_round();
    phase_ = Phase::gather;
    ++round_;
  }
  return true;
}

std::vector<int> NodeOperation::awaited_ranks() const {
  const bool is_gathering = phase_ == Phase::gather;
  std::vector<int> ranks;
  for (const int rank : is_gathering ? roles_.givers : roles_.takers) {
    if (!work_.has_ticked(rank, is_gathering ? 2 * round_ : 2 * round_ + 1)) ranks.push_back(rank);
  }
  return ranks;
}

bool NodeOperation::abandon(Transport&) noexcept {
  if (mode_ == Mode::flat) return false;
  return work_.abandon(roles_.takers, own_);
}

bool NodeOperation::is_staged(int rank) const { return work_.arrival_of(rank).flags.get() == flag_staged; }

const std::byte* NodeOperation::visible_input(int rank, const Piece& piece, std::size_t i) const {
  const auto* const base =
      rank == rank_ ? static_cast<const std::byte*>(items_[piece.item].inputs[i]) : table_of(rank).input(piece.item, i);
  return base == nullptr ? nullptr : at(base, piece.begin, items_[piece.item].dtype);
}

const std::byte* NodeOperation::input_of_round(int rank, const StagedPiece& part, std::size_t i) const {
  const std::byte* const visible = visible_input(rank, part.piece, i);
  return visible != nullptr ? visible : staging_of(rank) + i * round().input_bytes + part.input_offset;
}

const std::byte* NodeOperation::inline_input(int rank, const StagedPiece& part, std::size_t i) const {
  const Piece& piece = part.piece;
  if (rank == rank_)
    return at(static_cast<const std::byte*>(items_[piece.item].inputs[i]), piece.begin, items_[piece.item].dtype);
  return group_.control_block(rank).payloads[work_.slot()].bytes.data() + i * rounds_.front().input_bytes +
         part.input_offset;
}

/// Bytes that `rank` stages in one round, at most.
std::size_t NodeOperation::staging_stride(int rank) const {
  return most_round_bytes_ * static_cast<std::size_t>(inputs_of(rank));
}

/// Where the staged inputs of `rank` begin in this round.
const std::byte* NodeOperation::staging_of(int rank) const {
  if (control_block_use_.fits) return group_.control_block(rank).payloads[work_.slot()].bytes.data();
  const std::size_t stride = staging_stride(rank);
  return group_.resolve(rank, static_cast<NodeAddress>(work_.arrival_of(rank).staging.get()), 2 * stride) +
         round_ % 2 * stride;
}

/// Copies this rank's inputs of `round` to where the others read them.
void NodeOperation::copy_in(const NodeRound& round, std::byte* staging, Stage what) {
  for (std::size_t owner = 0; owner < round.slices.size(); ++owner) {
    if (what == Stage::what_others_need && static_cast<int>(owner) == private_owner()) continue;
    for (const StagedPiece& part : round.slices[owner]) {
      const Piece& piece = part.piece;
      const HostItem& item = items_[piece.item];
      const std::size_t bytes = static_cast<std::size_t>(piece.end - piece.begin) * size_of(item.dtype);
      for (std::size_t i = 0; i < item.inputs.size(); ++i) {
        if (what == Stage::what_others_need && own_.input(piece.item, i) != NodeAddress::none) continue;
        std::memcpy(staging + i * round.input_bytes + part.input_offset,
                    at(static_cast<const std::byte*>(item.inputs[i]), piece.begin, item.dtype), bytes);
      }
    }
  }
}

/// Looks up where the givers' buffers lie. Whether anything has changed since the last time; yes in the first.
bool NodeOperation::look_up_givers() {
  bool has_changed = !std::exchange(has_looked_up_, true);
  for (const int rank : roles_.givers) {
    PeerTable& peer = peers_[static_cast<std::size_t>(rank)];
    const Arrival& arrival = work_.arrival_of(rank);
    if (inputs_of(rank) == 0 || peer.id() == arrival.table_id.get()) continue;
    peer.read(group_, rank, static_cast<NodeAddress>(arrival.table.get()), arrival.table_id.get(), items_,
              inputs_of(rank), descriptor().op);
    has_changed = true;
  }
  return has_changed;
}

bool NodeOperation::all_clocks_reached(const std::vector<int>& ranks, std::size_t steps) {
  at_flag();
  for (; next_ < ranks.size(); ++next_) {
    if (!work_.has_ticked(ranks[next_], steps)) return false;
  }
  next_ = 0;
  return true;
}

}  // namespace lockstep::detail
