// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/mixed_radix.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep::detail {
namespace {

/// The position of boundary `index` when `range` is cut into `shares` equal shares; does not overflow.
std::int64_t cut(ElementRange range, std::int64_t index, std::int64_t shares) {
  const std::int64_t size = range.size();
  return range.begin + size / shares * index + size % shares * index / shares;
}

/// The first slice that `member` owns when `radix` slices are dealt to `members` members.
std::int64_t first_digit(int member, int members, int radix) {
  return (static_cast<std::int64_t>(member) * radix + members - 1) / members;
}

}  // namespace

MixedRadix::MixedRadix(const RankLayout& layout, Radices radices) : layout_(layout), radices_(std::move(radices)) {
  int groups = layout.ranks();
  std::int64_t slices = 1;
  for (StageRadix& stage : radices_) {
    const int below = groups;
    if (stage.kind == StageKind::node) {
      LOCKSTEP_CHECK(levels_.empty());
      groups = layout.nodes();
      for (int node = 0; node < groups; ++node) {
        const auto at = static_cast<std::size_t>(node);
        stage.radix = std::max(stage.radix, layout.first_rank[at + 1] - layout.first_rank[at]);
      }
    } else {
      LOCKSTEP_CHECK(stage.radix > 1);
      groups = groups_above(stage, groups);
    }
    levels_.push_back({stage.kind, stage.radix, below, groups, slices});
    if (stage.kind == StageKind::replicate) continue;
    LOCKSTEP_CHECK(splitting_ + 1 == stages());
    ++splitting_;
    slices *= stage.radix;
  }
  LOCKSTEP_CHECK(groups == 1);
}

int MixedRadix::first_child(int stage, int group) const {
  const Level& level = levels_[static_cast<std::size_t>(stage)];
  switch (level.kind) {
    case StageKind::node: return layout_.first_rank[static_cast<std::size_t>(group)];
    // groups of exactly `radix` children align with the nodes of the canonical tree
    case StageKind::split: return group == level.groups ? level.below : group * level.radix;
    // groups of nearly equal size, so that no rank must serve many other ranks
    case StageKind::replicate: return static_cast<int>(static_cast<std::int64_t>(group) * level.below / level.groups);
  }
  return 0;
}

int MixedRadix::parent(int stage, int child) const {
  const Level& level = levels_[static_cast<std::size_t>(stage)];
  switch (level.kind) {
    case StageKind::node: {
      const auto next = std::upper_bound(layout_.first_rank.begin(), layout_.first_rank.end(), child);
      return static_cast<int>(next - layout_.first_rank.begin()) - 1;
    }
    case StageKind::split: return std::min(child / level.radix, level.groups - 1);
    case StageKind::replicate:
      return static_cast<int>(((static_cast<std::int64_t>(child) + 1) * level.groups - 1) / level.below);
  }
  return 0;
}

int MixedRadix::group_of(int rank, int level) const {
  int group = rank;
  for (int stage = 0; stage < level; ++stage) group = parent(stage, group);
  return group;
}

int MixedRadix::first_inside(int group, int high, int low) const {
  for (int stage = high - 1; stage >= low; --stage) group = first_child(stage, group);
  return group;
}

int MixedRadix::owner(int level, int group, std::int64_t slice) const {
  for (int stage = level - 1; stage >= 0; --stage) {
    const Level& below = levels_[static_cast<std::size_t>(stage)];
    const std::int64_t digit = slice / below.slices % below.radix;
    group = first_child(stage, group) + static_cast<int>(digit * members(stage, group) / below.radix);
  }
  return group;
}

std::vector<std::int64_t> MixedRadix::slices_of(int rank, int level) const {
  std::vector<std::int64_t> slices{0};
  int child = rank;
  for (int stage = 0; stage < level; ++stage) {
    const Level& below = levels_[static_cast<std::size_t>(stage)];
    const int group = parent(stage, child);
    const int count = members(stage, group);
    const int member = child - first_child(stage, group);
    std::vector<std::int64_t> above;
    for (std::int64_t d = first_digit(member, count, below.radix); d < first_digit(member + 1, count, below.radix);
         ++d) {
      for (const std::int64_t slice : slices) above.push_back(slice + d * below.slices);
    }
    slices = std::move(above);
    child = group;
  }
  return slices;
}

std::int64_t MixedRadix::slice_count(int rank, int stage) const {
  std::int64_t count = 1;
  int child = rank;
  for (int below = 0; below < std::min(stage, splitting_); ++below) {
    const int group = parent(below, child);
    const int all = members(below, group);
    const int member = child - first_child(below, group);
    const int radix = levels_[static_cast<std::size_t>(below)].radix;
    count *= first_digit(member + 1, all, radix) - first_digit(member, all, radix);
    child = group;
  }
  return count;
}

bool MixedRadix::is_even() const {
  for (int stage = 0; stage < stages(); ++stage) {
    const Level& level = levels_[static_cast<std::size_t>(stage)];
    if (level.kind == StageKind::replicate) return false;
    for (int group = 0; group < level.groups; ++group) {
      if (members(stage, group) != level.radix) return false;
    }
  }
  return true;
}

ElementRange MixedRadix::last_slice(int rank, ElementRange all) const {
  int child = rank;
  for (int stage = 0; stage < stages(); ++stage) {
    const int group = parent(stage, child);
    all = share_of(stage, group, child - first_child(stage, group), all);
    child = group;
  }
  return all;
}

std::vector<int> MixedRadix::representative_ranks() const {
  constexpr int between = 16;
  std::vector<int> ranks;
  for (std::int64_t i = 0; i <= between; ++i) ranks.push_back(static_cast<int>(i * (layout_.ranks() - 1) / between));
  for (int stage = 0; stage < stages(); ++stage) {
    const int groups = levels_[static_cast<std::size_t>(stage)].groups;
    for (const int group : {0, std::max(0, groups - 2), groups - 1}) {
      const int first = first_child(stage, group);
      const int last = first_child(stage, group + 1) - 1;
      ranks.push_back(first_inside(first, stage, 0));
      ranks.push_back(first_inside(last, stage, 0));
      ranks.push_back(first_inside(last + 1, stage, 0) - 1);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

ElementRange MixedRadix::elements_of(int level, std::int64_t slice, ElementRange all) const {
  for (int stage = 0; stage < level; ++stage) {
    const Level& below = levels_[static_cast<std::size_t>(stage)];
    const std::int64_t digit = slice / below.slices % below.radix;
    all = {cut(all, digit, below.radix), cut(all, digit + 1, below.radix)};
  }
  return all;
}

/// The elements of a slice that `member` keeps in a splitting stage: the slices of the next level that it owns. The
/// last stage has no next level. There, the share of a member is proportional to its number of ranks or, after a node
/// stage, to its number of nodes, because each node has one port.
ElementRange MixedRadix::share_of(int stage, int group, int member, ElementRange slice) const {
  const Level& level = levels_[static_cast<std::size_t>(stage)];
  if (stage + 1 == stages()) {
    const int unit = stage > 0 && levels_.front().kind == StageKind::node ? 1 : 0;
    const int child = first_child(stage, group) + member;
    const int all = unit == 1 ? layout_.nodes() : layout_.ranks();
    return {cut(slice, first_inside(child, stage, unit), all), cut(slice, first_inside(child + 1, stage, unit), all)};
  }
  const int count = members(stage, group);
  return {cut(slice, first_digit(member, count, level.radix), level.radix),
          cut(slice, first_digit(member + 1, count, level.radix), level.radix)};
}

SliceStep MixedRadix::split(int stage, int group, int member, std::int64_t slice, ElementRange elements) const {
  const int count = members(stage, group);
  const int first = first_child(stage, group);
  SliceStep step;
  step.kept = share_of(stage, group, member, elements);
  // each rank starts with another target, so that not all ranks use the same port first
  for (int shift = 1; shift < count; ++shift) {
    const int target = (member + shift) % count;
    const int source = (member - shift + count) % count;
    step.sends.push_back({owner(stage, first + target, slice), share_of(stage, group, target, elements)});
    step.receives.push_back({owner(stage, first + source, slice), source});
  }
  return step;
}

/// Level `splitting_` is the level after the last splitting stage. Every group of this level has one holder of the
/// slice. Holder x of a group serves holders x, x + c, ... of each other group that the stage joins, where c is the
/// number of holders in the group of x. So each holder gets one message from each of these other groups.
SliceStep MixedRadix::replicate(int rank, int stage, int group, int member, std::int64_t slice,
                                ElementRange elements) const {
  const int count = members(stage, group);
  const int first = first_child(stage, group);
  const auto first_block = [&](int child) { return first_inside(child, stage, splitting_); };
  const int mine = first_block(first + member);
  const int holders = first_block(first + member + 1) - mine;
  const int place = group_of(rank, splitting_) - mine;
  SliceStep step;
  step.kept = elements;
  for (int shift = 1; shift < count; ++shift) {
    const int target = first + (member + shift) % count;
    const int source = first + (member - shift + count) % count;
    for (int block = first_block(target) + place; block < first_block(target + 1); block += holders)
      step.sends.push_back({owner(splitting_, block, slice), elements});
    const int others = first_block(source + 1) - first_block(source);
    step.receives.push_back({owner(splitting_, first_block(source) + place % others, slice), source - first});
  }
  return step;
}

StageStep MixedRadix::step(int rank, int stage, ElementRange all) const {
  const int child = group_of(rank, stage);
  const int group = parent(stage, child);
  const int first = first_child(stage, group);
  StageStep result;
  result.kind = levels_[static_cast<std::size_t>(stage)].kind;
  result.group = child - first;
  const int count = members(stage, group);
  for (int member = 0; member <= count; ++member) {
    const int bound = first_inside(first + member, stage, 0);
    result.bounds.push_back(layout_.first_replica[static_cast<std::size_t>(bound)]);
  }
  const int level = std::min(stage, splitting_);
  for (const std::int64_t slice : slices_of(rank, level)) {
    const ElementRange elements = elements_of(level, slice, all);
    result.slices.push_back(result.kind == StageKind::replicate
                                ? replicate(rank, stage, group, result.group, slice, elements)
                                : split(stage, group, result.group, slice, elements));
  }
  return result;
}

StageFold stage_fold(std::span<const int> bounds, int replicas, std::optional<int> leaves) {
  StageFold fold;
  std::vector<Block> all;
  for (std::size_t group = 0; group + 1 < bounds.size(); ++group) {
    std::vector<Block> blocks;
    if (leaves == static_cast<int>(group) || leaves == every_group) {
      for (int replica = bounds[group]; replica < bounds[group + 1]; ++replica)
        blocks.push_back({replica, replica + 1});
    } else {
      blocks = aligned_blocks(bounds[group], bounds[group + 1], replicas);
    }
    all.insert(all.end(), blocks.begin(), blocks.end());
    fold.inputs.push_back(std::move(blocks));
  }
  std::size_t begin = 0;
  for (const Block& block : aligned_blocks(bounds.front(), bounds.back(), replicas)) {
    std::size_t end = begin;
    while (end < all.size() && all[end].last <= block.last) ++end;
    const auto taken = std::span<const Block>(all).subspan(begin, end - begin);
    fold.outputs.push_back({block, taken.size(), fold_merges(taken, block)});
    begin = end;
  }
  LOCKSTEP_CHECK(begin == all.size());
  return fold;
}

}  // namespace lockstep::detail
