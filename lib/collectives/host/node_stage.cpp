// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_stage.hpp"

#include "base/processor.hpp"

#include <lockstep/base/error.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace lockstep::detail {
namespace {

std::size_t padded_bytes(const HostItem& item) {
  return whole_lines(static_cast<std::size_t>(item.count()) * size_of(item.dtype));
}

std::vector<int> others_of(const NodeGroup& group) {
  std::vector<int> others;
  for (int member = 0; member < group.size(); ++member) {
    if (member != group.rank()) others.push_back(member);
  }
  return others;
}

}  // namespace

NodeStage::NodeStage(NodeGroup& group, std::span<const HostItem> items, ReduceOp op, std::vector<int> replicas,
                     std::size_t result_bytes)
    : group_(group),
      others_(others_of(group)),
      work_(group, others_, others_),
      items_(items),
      op_(op),
      replicas_(std::move(replicas)),
      result_bytes_(result_bytes),
      own_(group, items, op),
      peers_(replicas_.size()),
      staging_(replicas_.size(), nullptr),
      outputs_(items.size()) {
  item_offsets_.push_back(0);
  for (const HostItem& item : items_) item_offsets_.push_back(item_offsets_.back() + padded_bytes(item));
}

std::size_t NodeStage::staged_bytes(int member) const {
  return item_offsets_.back() * static_cast<std::size_t>(replicas_[static_cast<std::size_t>(member)]);
}
std::size_t NodeStage::staged_offset(int member, std::size_t item, std::size_t replica) const {
  const auto count = static_cast<std::size_t>(replicas_[static_cast<std::size_t>(member)]);
  return item_offsets_[item] * count + padded_bytes(items_[item]) * replica;
}

void NodeStage::arrive(std::uint64_t tag, Arrival& arrival) {
  work_.arrive(tag, arrival);
  has_looked_up_ = has_finished_ = false;
  arrival.table() = static_cast<std::uint64_t>(own_.address());
  arrival.table_id() = own_.id();
  arrival.flags = 0;
  if (own_.is_visible()) return;
  const std::size_t bytes = staged_bytes(member());
  const bool fits = result_bytes_ <= group_.most_staged_bytes() && has_room_to_stage(bytes);
  arrival.flags = fits ? flag_staged : flag_refused;
  if (bytes == 0 || arrival.flags.get() == flag_refused) return;
  std::byte* const staging = group_.staging().inputs.data();
  arrival.staging() = static_cast<std::uint64_t>(group_.address_of(staging, bytes));
  stage_inputs(staging);
}

bool NodeStage::has_room_to_stage(std::size_t bytes) {
  if (bytes > group_.most_staged_bytes()) return false;
  try {
    group_.reserve_inputs(bytes);
  } catch (const Error&) {
    return false;
  }
  return true;
}

void NodeStage::stage_inputs(std::byte* staging) const {
  for (std::size_t item = 0; item < items_.size(); ++item) {
    const std::size_t bytes = static_cast<std::size_t>(items_[item].count()) * size_of(items_[item].dtype);
    if (bytes == 0) continue;
    for (std::size_t k = 0; k < items_[item].inputs.size(); ++k) {
      if (own_.input(item, k) == NodeAddress::none)
        std::memcpy(staging + staged_offset(member(), item, k), items_[item].inputs[k], bytes);
    }
  }
}

bool NodeStage::start() {
  others_staged_ = false;
  bool is_shared = work_.arrival_of(member()).flags.get() != flag_refused;
  for (const int other : others_) {
    others_staged_ = others_staged_ || work_.arrival_of(other).flags.get() == flag_staged;
    is_shared = is_shared && work_.arrival_of(other).flags.get() != flag_refused;
  }
  return is_shared;
}

/// Looks up the buffers of the other ranks.
void NodeStage::look_up() {
  for (auto& list : outputs_) list.clear();
  for (const int other : others_) {
    const auto at = static_cast<std::size_t>(other);
    const Arrival& arrival = work_.arrival_of(other);
    peers_[at].read(group_, other, static_cast<NodeAddress>(arrival.table().get()), arrival.table_id().get(), items_,
                    replicas_[at], op_);
    const std::size_t bytes = staged_bytes(other);
    staging_[at] = arrival.flags.get() == flag_staged && bytes != 0
                       ? group_.resolve(other, static_cast<NodeAddress>(arrival.staging().get()), bytes)
                       : nullptr;
    for (std::size_t item = 0; item < items_.size(); ++item) {
      for (std::byte* const output : peers_[at].outputs(item)) {
        if (output != nullptr) outputs_[item].push_back(output);
      }
    }
  }
  has_looked_up_ = true;
}

bool NodeStage::begin_work() {
  if (!work_.begin()) return false;
  if (!has_looked_up_) look_up();
  return true;
}

const std::byte* NodeStage::input(int member, std::size_t item, std::size_t replica) const {
  if (member == group_.rank()) return static_cast<const std::byte*>(items_[item].inputs[replica]);
  const auto at = static_cast<std::size_t>(member);
  const std::byte* const seen = peers_[at].input(item, replica);
  return seen != nullptr || staging_[at] == nullptr ? seen : staging_[at] + staged_offset(member, item, replica);
}

std::byte* NodeStage::results(std::size_t bytes) {
  if (!others_staged_) return nullptr;
  group_.reserve_results(std::max(bytes, line_bytes));
  const NodeMemory& memory = group_.staging().results;
  group_.own_control_block().results.value.store(static_cast<std::uint64_t>(group_.address_of(memory.data(), bytes)),
                                                 std::memory_order_relaxed);  // published by NodeWork::tick in `finish`
  return memory.data();
}

const std::byte* NodeStage::results_of(int member, std::size_t bytes) const {
  const auto address =
      static_cast<NodeAddress>(group_.control_block(member).results.value.load(std::memory_order_relaxed));
  return group_.resolve(member, address, bytes);
}

// A rank counts one step per operation (NodeWork::tick): in `finish`.

void NodeStage::finish() {
  if (has_finished_) return;
  has_finished_ = true;
  work_.tick();
}

bool NodeStage::have_all_finished() const {
  group_.at_flag();
  return std::all_of(others_.begin(), others_.end(), [this](int other) { return work_.has_ticked(other, 1); });
}

std::vector<int> NodeStage::unfinished() const {
  std::vector<int> members;
  std::copy_if(others_.begin(), others_.end(), std::back_inserter(members),
               [this](int other) { return !work_.has_ticked(other, 1); });
  return members;
}

void NodeStage::abandon(bool has_transfers) noexcept {
  if (has_transfers) group_.staging().results.leak();
  work_.abandon(own_);
}

}  // namespace lockstep::detail
