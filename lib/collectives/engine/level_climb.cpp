// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/level_climb.hpp"

#include "base/processor.hpp"

#include <algorithm>

namespace lockstep::detail {
namespace {

constexpr std::size_t bytes_beside_tag(std::size_t level) {
  return level == 0 ? decltype(Arrival::data)::capacity : decltype(LevelLine::data)::capacity;
}

}  // namespace

LevelClimb::LevelClimb(NodeGroup& group, bool carries) : group_(group), carries_(carries) {
  const int rank = group.rank();
  std::size_t most_groups = 0;
  for (int level = 0; level < group.levels().count(); ++level) {
    levels_.push_back({group.levels().sources(level, rank)});
    most_groups = std::max(most_groups, levels_.back().sources.size());
  }
  for (const int source : levels_.front().sources) {
    if (source != rank) neighbours_.push_back(source);
  }
  copies_.resize(most_groups);
  parts_.reserve(most_groups);
}

void LevelClimb::open(std::uint64_t tag, Operation& head, Arrival& arrival) {
  tag_ = tag;
  slot_ = ControlBlock::slot_of(tag);
  data_ = carries_ ? head.carried() : nullptr;
  hash_ = head.descriptor().hash;
  level_ = 0;
  have_lines_come_ = true;
  if (data_ == nullptr) return;
  const std::size_t bytes = data_->own_bytes();
  bool needs_payload = bytes > bytes_beside_tag(0);
  for (std::size_t level = 1; level < levels_.size(); ++level)
    needs_payload = needs_payload || data_->bytes_after(level - 1) > bytes_beside_tag(level);
  if (needs_payload) payload_ = group_.reserve_payload(slot_, levels_.size() * ControlBlock::level_payload_bytes);
  if (bytes > bytes_beside_tag(0)) {
    data_->pack(payload_.data);
    arrival.staging() = static_cast<std::uint64_t>(payload_.address);
  } else {
    data_->pack(own_.data());
    arrival.data.put(std::span(own_).first(bytes));
  }
}

std::byte* LevelClimb::own_payload(std::size_t level) const {
  return payload_.data + level * ControlBlock::level_payload_bytes;
}

const std::byte* LevelClimb::payload_of(int rank, std::size_t bytes) const {
  const ControlBlock& from = group_.control_block(rank);
  const auto address =
      level_ == 0 ? from.arrivals[slot_].staging().get() : from.levels[slot_][level_ - 1].data.word(0).get();
  return group_.resolve(rank, static_cast<NodeAddress>(address), bytes);
}

bool LevelClimb::advance(bool& differs) {
  while (true) {
    if (have_lines_come_) {
      if (data_ != nullptr && !differs) join_parts();
      if (level_ + 1 == levels_.size()) break;
      ++level_;
      show(differs);
      next_ = 0;
      have_lines_come_ = false;
    }
    const std::vector<int>& sources = levels_[level_].sources;
    for (; next_ < sources.size(); ++next_) {
      if (sources[next_] == group_.rank()) continue;
      const LevelLine& line = group_.control_block(sources[next_]).levels[slot_][level_ - 1];
      group_.at_flag();
      if (line.tag.load(std::memory_order_acquire) != tag_) return false;
      group_.at_read(sources[next_], &line, line_bytes);
      differs = differs || line.hash.get() != hash_;
    }
    have_lines_come_ = true;
  }
  if (data_ != nullptr && !differs) data_->deliver(result_.data());
  return true;
}

std::vector<int> LevelClimb::slowest() const {
  std::vector<int> ranks;
  std::size_t least = level_;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto& lines = group_.control_block(rank).levels[slot_];
    std::size_t reached = 0;
    while (reached < level_ && lines[reached].tag.load(std::memory_order_acquire) == tag_) ++reached;
    if (reached < least) {
      least = reached;
      ranks.clear();
    }
    if (reached == least && reached < level_) ranks.push_back(rank);
  }
  return ranks;
}

/// Writes this rank's line of the level.
void LevelClimb::show(bool differs) {
  LevelLine& line = group_.own_control_block().levels[slot_][level_ - 1];
  line.hash = differs ? ~hash_ : hash_;
  if (data_ != nullptr && !differs) {
    const std::size_t bytes = data_->bytes_after(level_ - 1);
    if (bytes <= bytes_beside_tag(level_)) {
      line.data.put(std::span(own_).first(bytes));
    } else {
      line.data.word(0) = static_cast<std::uint64_t>(payload_.address) + level_ * ControlBlock::level_payload_bytes;
    }
  }
  group_.at_flag();
  line.tag.store(tag_, std::memory_order_release);
  group_.wake();
}

/// The part of group number `group` in the level.
const std::byte* LevelClimb::part_of(std::size_t group) {
  const int source = levels_[level_].sources[group];
  const std::size_t bytes = data_->part_bytes(level_, group);
  const bool is_own = source == group_.rank();
  if (bytes > bytes_beside_tag(level_)) {
    if (is_own) return own_payload(level_);
    const std::byte* const part = payload_of(source, bytes);
    group_.at_read(source, part, bytes);
    return part;
  }
  const std::span<std::byte> copy = std::span(copies_[group]).first(bytes);
  const ControlBlock& from = group_.control_block(source);
  level_ == 0 ? from.arrivals[slot_].data.get(copy) : from.levels[slot_][level_ - 1].data.get(copy);
  return copy.data();
}

/// Makes the part of the next level, or the result.
void LevelClimb::join_parts() {
  parts_.clear();
  for (std::size_t group = 0; group < levels_[level_].sources.size(); ++group) parts_.push_back(part_of(group));
  const std::size_t bytes = data_->bytes_after(level_);
  std::byte* joined = own_.data();
  if (level_ + 1 == levels_.size()) {
    if (result_.size() < bytes) result_.resize(bytes);
    joined = result_.data();
  } else if (bytes > bytes_beside_tag(level_ + 1)) {
    joined = own_payload(level_ + 1);
  }
  data_->join(level_, parts_, joined);
}

}  // namespace lockstep::detail
