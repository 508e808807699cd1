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

RankSchedule::RankSchedule(const std::shared_ptr<const RankLayout>& ranks, int rank, const Radices& radices, int parts)
    : layout(ranks),
      schedule(*layout, radices),
      chunks(parts),
      fingerprint(fingerprint_of(fmt::format("{} in {}", to_string(schedule.radices()), chunks))) {
  first = schedule.stages();
  for (int j = 0; j < schedule.stages(); ++j) {
    Stage& stage = stages.emplace_back();
    const StageStep step = schedule.step(rank, j, {0, 0});
    stage.has_peers = step.bounds.size() > 2;
    if (!stage.has_peers) continue;
    first = std::min(first, j);
    const auto own = first == j ? std::optional(step.group) : std::nullopt;
    if (j == 0) node_fold = stage_fold(step.bounds, layout->replicas(), every_group);
    stage.fold = stage_fold(step.bounds, layout->replicas(), own);
    const auto part = static_cast<std::size_t>(step.group);
    stage.shipped = aligned_blocks(step.bounds[part], step.bounds[part + 1], layout->replicas());
    for (const Block& block : stage.shipped) stage.shipped_merges.push_back(fold_merges_of_leaves(block));
  }
}

ScheduleCache::ScheduleCache(const ReplicaLayout& layout, std::span<const int> node_leaders, int rank,
                             const ScheduleOptions& options, NodeMeans means)
    : layout_(rank_layout(layout, node_leaders)), rank_(rank), options_(options), means_(means) {
  if (!options.radices.empty()) forced_.emplace(options.radices);
}

std::shared_ptr<const RankSchedule> ScheduleCache::find(std::int64_t bytes) {
  if (layout_->ranks() == 1) return nullptr;
  if (!forced_ && (layout_->ranks() == 2 || layout_->nodes() == 1)) return nullptr;
  const auto size_class =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(8, bytes) - 1)));
  const std::scoped_lock lock(mutex_);
  const auto known = plans_.find(size_class);
  if (known != plans_.end()) return known->second;
  return plans_[size_class] = plan(std::int64_t{1} << std::min(size_class, 44));
}

std::shared_ptr<const RankSchedule> ScheduleCache::plan(std::int64_t bytes) const {
  const CostParameters parameters;
  ScheduleChoice plan;
  if (forced_) {
    plan = priced(*layout_, parameters, forced_->stages(layout_->ranks(), layout_->nodes()), bytes, options_.chunks);
  } else {
    const bool shares_nodes = means_ == NodeMeans::memory && layout_->nodes() < layout_->ranks();
    plan = plan_all_reduce(*layout_, parameters, bytes, shares_nodes ? FirstStage::node : FirstStage::any);
    if (plan.radices.size() == 1 && plan.segments == 1) return nullptr;
  }
  return std::make_shared<RankSchedule>(layout_, rank_, plan.radices,
                                        options_.chunks != 0 ? options_.chunks : plan.segments);
}

}  // namespace lockstep::detail
