// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The mixed-radix schedules of a communicator, by size. A schedule is planned at the first use of its size class, and
// looked up afterwards.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "base/mutex.hpp"
#include "collectives/call/element_space.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/carried_data.hpp"
#include "schedule/levels.hpp"
#include "schedule/mixed_radix.hpp"
#include "schedule/planner.hpp"
#include "schedule/radices.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The schedule of one rank, for any number of elements. Immutable; the operations that run the schedule share it.
class RankSchedule {
 public:
  struct Stage {
    bool has_peers = false;  ///< if false, this rank has no work in the stage
    StageFold fold;
    std::vector<Block> shipped;  ///< tree blocks whose partial results this rank sends
    /// For each block of `shipped`, the fold of its replicas. Used only if this rank has all replicas of the block.
    std::vector<std::vector<std::uint8_t>> shipped_merges;
  };
  RankSchedule(const std::shared_ptr<const RankLayout>& layout, int rank, const Radices& radices, int segments);

  [[nodiscard]] const RankLayout& layout() const noexcept { return *layout_; }
  [[nodiscard]] const Radices& radices() const noexcept { return schedule_.radices(); }
  [[nodiscard]] int segments() const noexcept { return segments_; }
  /// Equal for schedules with equal radices and segments.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  /// Whether the first stage is a node stage, which the ranks of a node can run in shared memory.
  [[nodiscard]] bool begins_in_node() const { return radices().front().kind == StageKind::node; }

  [[nodiscard]] int stage_count() const noexcept { return schedule_.stages(); }
  [[nodiscard]] const Stage& stage(int index) const { return stages_[static_cast<std::size_t>(index)]; }
  /// The first stage in which this rank has peers. This rank's inputs to that stage are the tensors of its replicas;
  /// its inputs to later stages are partial results.
  [[nodiscard]] int first_stage() const noexcept { return first_stage_; }
  /// The fold of the first stage for a rank that reads all inputs of its node in shared memory.
  [[nodiscard]] const StageFold& node_fold() const noexcept { return node_fold_; }

  /// Whether two ranks are in the same group when `stage` begins.
  [[nodiscard]] bool are_together(int rank, int other, int stage) const {
    return schedule_.are_together(rank, other, stage);
  }
  /// The ranks, in the order of the slices that they own after the last stage. Empty if some ranks own no slice or
  /// several slices.
  [[nodiscard]] const std::vector<int>& ranks_by_slice() const noexcept { return ranks_by_slice_; }

  /// The work of `rank` in `stage` for `elements` of `space`. All ranks round ranges in the same way, see
  /// ElementSpace::snapped, so the sender and the receiver of a message use the same elements.
  [[nodiscard]] StageStep step(const ElementSpace& space, int rank, int stage, ElementRange elements) const;
  /// The work of `rank` in `stage` for all elements of `space`, if the slices that ranks own after the last stage have
  /// different sizes. `first_tensors` has the first tensor of each slice, then the number of tensors. `ranks_by_slice`
  /// must not be empty.
  [[nodiscard]] StageStep step(const ElementSpace& space, int rank, int stage,
                               std::span<const std::size_t> first_tensors) const;

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

/// Choices that override the planner. They never change the bits of a result.
struct ScheduleOptions {
  std::string radices;  ///< in the syntax of RadixPattern; empty: chosen by the planner
  int segments = 0;     ///< 0: chosen by the planner
  bool carries = true;  ///< whether the data of small operations travels with the agreement
};

/// The path of data between the ranks of one node.
enum class NodePath : std::uint8_t { messages, memory };

/// The steps of the agreement between the ranks of `layout`, which are on several nodes, or on one node without shared
/// memory.
[[nodiscard]] std::shared_ptr<const CarrySteps> make_carry_steps(const ReplicaLayout& layout,
                                                                 std::span<const int> node_leaders, int rank,
                                                                 NodePath path);

/// The schedule of an all_reduce in the levels of a node. Its first stage joins the ranks of a domain. The last stage
/// replicates if it joins two groups: to exchange whole slices then costs less than to exchange halves of them twice.
[[nodiscard]] std::shared_ptr<const RankSchedule> make_level_schedule(const ReplicaLayout& layout, const Levels& levels,
                                                                      int rank);
/// Maximum number of bytes of an all_reduce in levels. For more bytes, the bandwidth of the memory limits the time, and
/// node_reduce is used.
inline constexpr std::int64_t most_level_bytes = std::int64_t{2} << 20;

/// The schedule that the planner chooses for an all-reduce of `bytes` bytes. All sizes with the same next power of two
/// get the same schedule. There is no schedule if all ranks are on one node, if there are only two ranks, or if the
/// planner prefers direct exchange. If the ranks of a node share memory, the schedule begins inside the nodes. The
/// planner assumes the rates of a default CostParameters; it does not measure the network.
[[nodiscard]] std::optional<ScheduleChoice> planned_schedule(const RankLayout& layout, std::int64_t bytes,
                                                             NodePath path);

/// Thread-safe.
class ScheduleCache {
 public:
  /// `node_leaders[r]` is the lowest rank of the node of rank r. If nodes are not contiguous ranges of ranks, each rank
  /// counts as a node. Throws Error(invalid_argument) for invalid radices.
  ScheduleCache(const ReplicaLayout& layout, std::span<const int> node_leaders, int rank,
                const ScheduleOptions& options, NodePath path = NodePath::messages);

  /// The schedule for an all-reduce of `bytes` bytes, with the radices of ScheduleOptions if these are set, else as
  /// chosen by `planned_schedule`. Null if there is only one rank, or if `planned_schedule` returns no schedule.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find(std::int64_t bytes);
  /// The schedule for a reduce_scatter or all_gather of `bytes` bytes in total, whose stages split evenly. Null if all
  /// ranks are on one node, if there are only two ranks, or if nodes have different numbers of ranks.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find_even(std::int64_t bytes);
  /// The schedule for a gather or scatter of `bytes` bytes in total, which has `parts` parts: that of `find_even`. Null
  /// if the ranks have large parts, for which direct messages are faster, if there are so many parts that the memory
  /// and time of a rank for all of them would matter, or if ranks of a node do not share memory.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find_rooted_parts(std::int64_t bytes, std::int64_t parts);
  /// The schedule with only one stage, in the node. Null if there is only one rank, if there are several nodes, or if
  /// there are so many parts that the memory and time of a rank for all of them would matter.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find_in_node(std::int64_t parts);
  /// The schedule for a reduce of `bytes` bytes, in which partial results go to the root's node in one stage, if that
  /// is faster than `find(bytes)`; else the schedule of `find(bytes)`.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find_reduce(std::int64_t bytes);
  /// The schedule for a broadcast of `bytes` bytes. Null if all ranks are on one node, or if ranks of a node do not
  /// share memory.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find_broadcast(std::int64_t bytes);
  /// Whether all nodes have the same number of ranks, and all ranks have the same number of replicas.
  [[nodiscard]] bool is_even() const noexcept { return is_even_; }
  [[nodiscard]] const std::string& forced_radices() const noexcept { return options_.radices; }

 private:
  [[nodiscard]] std::shared_ptr<const RankSchedule> plan(std::int64_t bytes) const;
  /// Whether the nodes of a rooted collective of `bytes` bytes should exchange whole slices with the root's node,
  /// because there are few nodes, or because the slices are small.
  [[nodiscard]] bool is_direct(std::int64_t bytes) const;
  /// The number of segments into which a rooted collective of `bytes` bytes divides its data, so that a rank can copy
  /// one segment while another one is in flight.
  [[nodiscard]] int segments_of(std::int64_t bytes) const;
  /// The bytes of one rank's slice in a stage between nodes, if each node divides `bytes` bytes among its ranks.
  [[nodiscard]] std::int64_t slice_bytes(std::int64_t bytes) const {
    return bytes * layout_->nodes() / layout_->ranks();
  }
  [[nodiscard]] Radices radices_of(std::string_view pattern) const;
  [[nodiscard]] std::shared_ptr<const RankSchedule> find_by(const Radices& radices, int segments)
      LOCKSTEP_EXCLUDES(mutex_);

  std::shared_ptr<const RankLayout> layout_;
  int rank_;
  ScheduleOptions options_;
  NodePath path_;
  bool has_even_nodes_;  // whether all nodes have the same number of ranks
  bool is_even_;
  std::optional<RadixPattern> forced_;
  Mutex mutex_;
  std::map<std::pair<Radices, int>, std::shared_ptr<const RankSchedule>> by_radices_ LOCKSTEP_GUARDED_BY(mutex_);
  std::map<std::int64_t, std::shared_ptr<const RankSchedule>> plans_ LOCKSTEP_GUARDED_BY(mutex_);  // by planned size
};

}  // namespace lockstep::detail
