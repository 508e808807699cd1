// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The mixed-radix schedules of a communicator by size: planned at the first use of a size class, then looked up.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "base/mutex.hpp"
#include "collectives/call/element_space.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/carried_data.hpp"
#include "schedule/mixed_radix.hpp"
#include "schedule/planner.hpp"
#include "schedule/radices.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

/// The schedule of one rank, for any elements. Immutable, shared by the operations that run it.
class RankSchedule {
 public:
  struct Stage {
    bool has_peers = false;  ///< if not, this rank has no work in the stage
    StageFold fold;
    std::vector<Block> shipped;  ///< tree blocks whose partial results this rank sends
    /// How to fold each of `shipped` that covers only replicas of this rank.
    std::vector<std::vector<std::uint8_t>> shipped_merges;
  };
  RankSchedule(const std::shared_ptr<const RankLayout>& layout, int rank, const Radices& radices, int segments);

  [[nodiscard]] const RankLayout& layout() const noexcept { return *layout_; }
  [[nodiscard]] const Radices& radices() const noexcept { return schedule_.radices(); }
  [[nodiscard]] int segments() const noexcept { return segments_; }
  /// Equal for schedules with equal radices and segments.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  /// Whether the ranks of a node share the work of the first stage, so that they can do it in shared memory.
  [[nodiscard]] bool begins_in_node() const { return radices().front().kind == StageKind::node; }

  [[nodiscard]] int stage_count() const noexcept { return schedule_.stages(); }
  [[nodiscard]] const Stage& stage(int index) const { return stages_[static_cast<std::size_t>(index)]; }
  /// The first stage in which this rank has peers. Its own inputs to that stage are the tensors of its replicas; to
  /// later stages, partial results.
  [[nodiscard]] int first_stage() const noexcept { return first_stage_; }
  /// The fold of the first stage if this rank reads all inputs of its node itself.
  [[nodiscard]] const StageFold& node_fold() const noexcept { return node_fold_; }

  /// Whether two ranks are in one of the groups that `stage` joins.
  [[nodiscard]] bool are_together(int rank, int other, int stage) const {
    return schedule_.are_together(rank, other, stage);
  }
  /// The ranks in the order of the slices that they own after the last stage; empty if some own none or several.
  [[nodiscard]] const std::vector<int>& ranks_by_slice() const noexcept { return ranks_by_slice_; }

  /// The work of `rank` in `stage` for `elements` of `space`. Ranges are rounded to the boundaries of `space` in
  /// the same way on all ranks, so both ends of a message have the same elements.
  [[nodiscard]] StageStep step(const ElementSpace& space, int rank, int stage, ElementRange elements) const;

 private:
  std::shared_ptr<const RankLayout> layout_;
  MixedRadix schedule_;
  int segments_;
  std::vector<Stage> stages_;
  StageFold node_fold_;
  int first_stage_;
  std::uint64_t fingerprint_;
  std::vector<int> ranks_by_slice_;
};

/// Choices that override the planner. They never change bits.
struct ScheduleOptions {
  std::string radices;  ///< in the syntax of RadixPattern; empty: chosen by the planner
  int segments = 0;     ///< 0: chosen by the planner
  bool carries = true;  ///< whether the data of small operations travels with the agreement
};

/// The path between the ranks of one node.
enum class NodePath : std::uint8_t { messages, memory };

/// The steps of the agreement between these ranks of several nodes, or of one node without shared memory.
[[nodiscard]] std::shared_ptr<const CarrySteps> make_carry_steps(const ReplicaLayout& layout,
                                                                 std::span<const int> node_leaders, int rank,
                                                                 NodePath path);

/// The schedule that the planner chooses for an all-reduce of `bytes` bytes: one for all sizes up to the next power of
/// two. None inside one node, between two ranks, and if it prefers direct exchange. It begins inside the nodes if their
/// ranks share memory. The planner assumes the rates of a default CostParameters: the network is not measured.
[[nodiscard]] std::optional<ScheduleChoice> planned_schedule(const RankLayout& layout, std::int64_t bytes,
                                                             NodePath path);

/// Thread-safe.
class ScheduleCache {
 public:
  /// `node_leaders` has the lowest rank of each rank's node; if nodes are not contiguous ranges of ranks, each rank
  /// counts as a node. Throws Error(invalid_argument) for invalid radices.
  ScheduleCache(const ReplicaLayout& layout, std::span<const int> node_leaders, int rank,
                const ScheduleOptions& options, NodePath path = NodePath::messages);

  /// The schedule for an all-reduce of `bytes` bytes; null inside one node, and if the planner prefers direct
  /// exchange. It begins inside the nodes if their ranks share memory.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find(std::int64_t bytes);
  /// The schedule for a reduce_scatter or all_gather of `bytes` bytes in all, whose stages split evenly; null inside
  /// one node, for two ranks, and if nodes or ranks differ in their numbers of ranks or replicas.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find_even(std::int64_t bytes);
  [[nodiscard]] const std::string& forced_radices() const noexcept { return options_.radices; }

 private:
  [[nodiscard]] std::shared_ptr<const RankSchedule> plan(std::int64_t bytes) const;
  /// Whether all nodes have as many ranks, and all ranks as many replicas.
  [[nodiscard]] bool is_even() const;

  std::shared_ptr<const RankLayout> layout_;
  int rank_;
  ScheduleOptions options_;
  NodePath path_;
  std::optional<RadixPattern> forced_;
  Mutex mutex_;
  std::map<Radices, std::shared_ptr<const RankSchedule>> even_ LOCKSTEP_GUARDED_BY(mutex_);
  std::map<std::int64_t, std::shared_ptr<const RankSchedule>> plans_ LOCKSTEP_GUARDED_BY(mutex_);  // by planned size
};

}  // namespace lockstep::detail
