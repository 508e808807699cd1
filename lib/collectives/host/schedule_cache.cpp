// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/schedule_cache.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

namespace lockstep::detail {
namespace {

std::shared_ptr<const RankLayout> rank_layout(const ReplicaLayout& layout, std::span<const int> node_leaders) {
  auto result = std::make_shared<RankLayout>();
  LOCKSTEP_CHECK(node_leaders.size() == static_cast<std::size_t>(layout.ranks()));
  bool is_contiguous = true;
  for (int rank = 0; rank <= layout.ranks(); ++rank) {
    result->first_replica.push_back(layout.first(rank));
    if (rank == layout.ranks()) break;
    const int leader = node_leaders[static_cast<std::size_t>(rank)];
    if (leader == rank) result->first_rank.push_back(rank);
    is_contiguous = is_contiguous && leader == result->first_rank.back();
  }
  if (!is_contiguous) {
    result->first_rank.clear();
    for (int rank = 0; rank < layout.ranks(); ++rank) result->first_rank.push_back(rank);
  }
  result->first_rank.push_back(layout.ranks());
  return result;
}

/// `work` with `range_of(range)` in place of each range.
template <class RangeOf>
StageStep with_ranges(StageStep work, const RangeOf& range_of) {
  for (SliceStep& slice : work.slices) {
    slice.kept = range_of(slice.kept);
    for (auto& send : slice.sends) send.elements = range_of(send.elements);
  }
  return work;
}

bool has_equal_steps(const std::vector<int>& bounds) {
  const auto is_uneven = [&](int a, int b) { return b - a != bounds[1] - bounds[0]; };
  return std::adjacent_find(bounds.begin(), bounds.end(), is_uneven) == bounds.end();
}

/// Parts of at least this size travel directly: their time is that of their bytes, not that of the messages.
constexpr std::int64_t least_direct_bytes = 8192;

/// The largest number of parts for which a rank prepares the parts of all ranks.
constexpr std::int64_t most_parts = 1024;

/// Large parts travel from each node to every other node directly, in one stage. Small parts travel in several stages:
/// the radices are factors, at most 8, of the number of nodes, and the last stage has the remaining factor. Powers of
/// two come first, because a group whose number of ranks is a power of two holds whole blocks of the canonical tree.
Radices even_radices(const RankLayout& layout, NodePath path, std::int64_t bytes) {
  Radices radices;
  const int ranks_of_node = layout.ranks() / layout.nodes();
  if (ranks_of_node > 1)
    radices.push_back({path == NodePath::memory ? StageKind::node : StageKind::split, ranks_of_node});
  int left = layout.nodes();
  if (bytes / layout.ranks() < least_direct_bytes) {
    for (const int factor : {8, 4, 2, 3, 5, 7}) {
      for (; left % factor == 0 && left > 8; left /= factor) radices.push_back({StageKind::split, factor});
    }
  }
  radices.push_back({StageKind::split, left});
  return radices;
}

/// FNV-1a.
std::uint64_t fingerprint_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// The size for which the schedule of `bytes` bytes is planned: the next power of two.
std::int64_t planned_bytes(std::int64_t bytes) {
  const auto size_class =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(8, bytes) - 1)));
  return std::int64_t{1} << std::min(size_class, 44);
}

}  // namespace

RankSchedule::RankSchedule(const std::shared_ptr<const RankLayout>& layout, int rank, const Radices& radices,
                           int segments)
    : layout_(layout),
      schedule_(*layout_, radices),
      segments_(segments),
      first_stage_(schedule_.stages()),
      fingerprint_(fingerprint_of(fmt::format("{} in {}", to_string(schedule_.radices()), segments_))) {
  for (int j = 0; j < schedule_.stages(); ++j) {
    Stage& stage = stages_.emplace_back();
    const StageStep work = schedule_.step(rank, j, {0, 0});  // an empty range needs no rounding
    stage.has_peers = work.bounds.size() > 2;
    if (!stage.has_peers) continue;
    first_stage_ = std::min(first_stage_, j);
    const auto own = first_stage_ == j ? std::optional(work.group) : std::nullopt;
    if (j == 0) node_fold_ = stage_fold(work.bounds, layout_->replicas(), every_group);
    stage.fold = stage_fold(work.bounds, layout_->replicas(), own);
    const auto group = static_cast<std::size_t>(work.group);
    stage.shipped = aligned_blocks(work.bounds[group], work.bounds[group + 1], layout_->replicas());
    for (const Block& block : stage.shipped) stage.shipped_merges.push_back(fold_merges_of_leaves(block));
  }
  if (!schedule_.is_even()) return;
  const int ranks = layout_->ranks();
  ranks_by_slice_.resize(static_cast<std::size_t>(ranks));
  for (int owner = 0; owner < ranks; ++owner)
    ranks_by_slice_[static_cast<std::size_t>(schedule_.last_slice(owner, {0, ranks}).begin)] = owner;
}

StageStep RankSchedule::step(const ElementSpace& space, int rank, int stage, ElementRange elements) const {
  return with_ranges(schedule_.step(rank, stage, elements), [&](ElementRange range) { return space.snapped(range); });
}

StageStep RankSchedule::step(const ElementSpace& space, int rank, int stage,
                             std::span<const std::size_t> first_tensors) const {
  const auto start = [&](std::int64_t slice) { return space.start(first_tensors[static_cast<std::size_t>(slice)]); };
  return with_ranges(schedule_.step(rank, stage, {0, layout_->ranks()}),
                     [&](ElementRange slices) { return ElementRange{start(slices.begin), start(slices.end)}; });
}

std::shared_ptr<const RankSchedule> make_level_schedule(const ReplicaLayout& layout, const Levels& levels, int rank) {
  auto ranks = std::make_shared<RankLayout>();
  for (int other = 0; other <= layout.ranks(); ++other) ranks->first_replica.push_back(layout.first(other));
  ranks->first_rank = levels.domains();
  Radices radices{{StageKind::node, levels.radix(0)}};
  for (int level = 1; level < levels.count(); ++level) {
    const int radix = levels.radix(level);
    const bool replicates = level + 1 == levels.count() && radix == 2;
    radices.push_back({replicates ? StageKind::replicate : StageKind::split, radix});
  }
  return std::make_shared<const RankSchedule>(std::move(ranks), rank, radices, 1);
}

ScheduleCache::ScheduleCache(const ReplicaLayout& layout, std::span<const int> node_leaders, int rank,
                             const ScheduleOptions& options, NodePath path)
    : layout_(rank_layout(layout, node_leaders)),
      rank_(rank),
      options_(options),
      path_(path),
      has_even_nodes_(has_equal_steps(layout_->first_rank)),
      is_even_(has_even_nodes_ && has_equal_steps(layout_->first_replica)) {
  if (!options.radices.empty()) forced_.emplace(options.radices);
}

std::shared_ptr<const CarrySteps> make_carry_steps(const ReplicaLayout& layout, std::span<const int> node_leaders,
                                                   int rank, NodePath path) {
  if (path == NodePath::memory) return std::make_shared<CarrySteps>(layout, node_leaders, rank);
  std::vector<int> ranks(static_cast<std::size_t>(layout.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_shared<CarrySteps>(layout, ranks, rank);
}

std::optional<ScheduleChoice> planned_schedule(const RankLayout& layout, std::int64_t bytes, NodePath path) {
  if (layout.ranks() <= 2 || layout.nodes() == 1) return std::nullopt;
  const bool shares_nodes = path == NodePath::memory && layout.nodes() < layout.ranks();
  ScheduleChoice plan =
      plan_all_reduce(layout, {}, planned_bytes(bytes), shares_nodes ? FirstStage::node : FirstStage::any);
  if (plan.radices.size() == 1 && plan.segments == 1) return std::nullopt;
  return plan;
}

std::shared_ptr<const RankSchedule> ScheduleCache::find(std::int64_t bytes) {
  if (layout_->ranks() == 1) return nullptr;
  const std::int64_t planned = planned_bytes(bytes);
  const MutexLock lock(mutex_);
  const auto known = plans_.find(planned);
  if (known != plans_.end()) return known->second;
  return plans_[planned] = plan(planned);
}

std::shared_ptr<const RankSchedule> ScheduleCache::find_by(const Radices& radices, int segments) {
  const MutexLock lock(mutex_);
  auto& schedule = by_radices_[{radices, segments}];
  if (!schedule) schedule = std::make_shared<RankSchedule>(layout_, rank_, radices, segments);
  return schedule;
}

std::shared_ptr<const RankSchedule> ScheduleCache::find_even(std::int64_t bytes) {
  if (layout_->ranks() == 2 || layout_->nodes() == 1 || !has_even_nodes_) return nullptr;
  return find_by(even_radices(*layout_, path_, bytes), 1);
}

std::shared_ptr<const RankSchedule> ScheduleCache::find_in_node(std::int64_t parts) {
  if (layout_->ranks() == 1 || layout_->nodes() > 1 || parts > most_parts) return nullptr;
  return find_by({{StageKind::node, layout_->ranks()}}, 1);
}

std::shared_ptr<const RankSchedule> ScheduleCache::find_rooted_parts(std::int64_t bytes, std::int64_t parts) {
  const bool is_small = bytes / layout_->ranks() < least_direct_bytes && parts <= most_parts;
  if (path_ != NodePath::memory || !is_small) return nullptr;
  return find_even(bytes);
}

Radices ScheduleCache::radices_of(std::string_view pattern) const {
  return RadixPattern(pattern).stages(layout_->ranks(), layout_->nodes());
}

bool ScheduleCache::is_direct(std::int64_t bytes) const {
  constexpr std::int64_t most_direct_bytes = std::int64_t{64} << 10;
  return (layout_->nodes() - 2) * slice_bytes(bytes) <= most_direct_bytes;
}

int ScheduleCache::segments_of(std::int64_t bytes) const {
  constexpr std::int64_t segment_bytes = std::int64_t{256} << 10;
  if (options_.segments != 0) return options_.segments;
  return static_cast<int>(std::clamp<std::int64_t>(slice_bytes(bytes) / segment_bytes, 1, 16));
}

std::shared_ptr<const RankSchedule> ScheduleCache::find_reduce(std::int64_t bytes) {
  const bool is_staged = path_ == NodePath::memory && layout_->nodes() > 1;
  if (forced_ || !is_staged || !is_direct(bytes)) return find(bytes);
  return find_by(radices_of("n.r0"), segments_of(bytes));
}

std::shared_ptr<const RankSchedule> ScheduleCache::find_broadcast(std::int64_t bytes) {
  if (path_ != NodePath::memory || layout_->nodes() == 1) return nullptr;
  if (is_direct(bytes)) return find_by(radices_of("n.r0"), segments_of(bytes));
  return find_by(has_even_nodes_ ? even_radices(*layout_, path_, bytes) : radices_of("n.0"), segments_of(bytes));
}

std::shared_ptr<const RankSchedule> ScheduleCache::plan(std::int64_t bytes) const {
  std::optional<ScheduleChoice> plan;
  if (forced_) {
    plan = priced(*layout_, {}, forced_->stages(layout_->ranks(), layout_->nodes()), bytes, options_.segments);
  } else {
    plan = planned_schedule(*layout_, bytes, path_);
    if (!plan) return nullptr;
  }
  return std::make_shared<RankSchedule>(layout_, rank_, plan->radices,
                                        options_.segments != 0 ? options_.segments : plan->segments);
}

}  // namespace lockstep::detail
