// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/schedule_cache.hpp"

#include "base/check.hpp"
#include "schedule/planner.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

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

/// FNV-1a.
std::uint64_t fingerprint_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
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
    const StageStep work = schedule_.step(rank, j, {0, 0});  // without elements: nothing to snap
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
}

StageStep RankSchedule::step(const ElementSpace& space, int rank, int stage, ElementRange elements) const {
  StageStep work = schedule_.step(rank, stage, elements);
  for (SliceStep& slice : work.slices) {
    slice.kept = space.snapped(slice.kept);
    for (auto& send : slice.sends) send.elements = space.snapped(send.elements);
  }
  return work;
}

ScheduleCache::ScheduleCache(const ReplicaLayout& layout, std::span<const int> node_leaders, int rank,
                             const ScheduleOptions& options, NodePath path)
    : layout_(rank_layout(layout, node_leaders)), rank_(rank), options_(options), path_(path) {
  if (!options.radices.empty()) forced_.emplace(options.radices);
}

std::shared_ptr<const RankSchedule> ScheduleCache::find(std::int64_t bytes) {
  if (layout_->ranks() == 1) return nullptr;
  if (!forced_ && (layout_->ranks() == 2 || layout_->nodes() == 1)) return nullptr;
  const auto size_class =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(8, bytes) - 1)));
  const MutexLock lock(mutex_);
  const auto known = plans_.find(size_class);
  if (known != plans_.end()) return known->second;
  return plans_[size_class] = plan(std::int64_t{1} << std::min(size_class, 44));
}

std::shared_ptr<const RankSchedule> ScheduleCache::plan(std::int64_t bytes) const {
  const CostParameters parameters;
  ScheduleChoice plan;
  if (forced_) {
    plan = priced(*layout_, parameters, forced_->stages(layout_->ranks(), layout_->nodes()), bytes, options_.segments);
  } else {
    const bool shares_nodes = path_ == NodePath::memory && layout_->nodes() < layout_->ranks();
    plan = plan_all_reduce(*layout_, parameters, bytes, shares_nodes ? FirstStage::node : FirstStage::any);
    if (plan.radices.size() == 1 && plan.segments == 1) return nullptr;
  }
  return std::make_shared<RankSchedule>(layout_, rank_, plan.radices,
                                        options_.segments != 0 ? options_.segments : plan.segments);
}

}  // namespace lockstep::detail
