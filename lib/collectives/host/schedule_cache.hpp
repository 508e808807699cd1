// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which schedule a communicator runs for which size: looked up, planned when new.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "schedule/mixed_radix.hpp"
#include "schedule/radices.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

/// A schedule as one rank runs it, but for the elements. Immutable, shared by the operations that run it.
struct RankSchedule {
  struct Stage {
    bool has_peers = false;  ///< otherwise this rank has nothing to do in it
    StageFold fold;
    std::vector<Block> shipped;                             ///< what this rank sends of each element
    std::vector<std::vector<std::uint8_t>> shipped_merges;  ///< how to add those of its own replicas
  };
  RankSchedule(const std::shared_ptr<const RankLayout>& layout, int rank, const Radices& radices, int chunks);

  /// Whether the ranks of a node begin by sharing the work, so that they can do it in memory that they share.
  [[nodiscard]] bool begins_in_node() const { return schedule.radices().front().kind == StageKind::node; }

  std::shared_ptr<const RankLayout> layout;
  MixedRadix schedule;
  int chunks = 1;
  std::vector<Stage> stages;
  StageFold node_fold;            ///< of the first stage, where this rank reads all inputs of its node itself
  int first = 0;                  ///< the first stage with peers: its own inputs are single replicas
  std::uint64_t fingerprint = 0;  ///< equal where radices and chunks are
};

/// What overrules the planner. Never able to change bits.
struct ScheduleOptions {
  std::string radices;  ///< as RadixPattern reads them; empty: the planner's
  int chunks = 0;       ///< 0: the planner's
};

/// How the ranks of one node reach one another.
enum class NodeMeans : std::uint8_t { messages, memory };

/// Thread-safe.
class ScheduleCache {
 public:
  /// `node_leaders` has for every rank the lowest rank of its node; where nodes are no contiguous ranges of ranks, each
  /// rank counts as a node. Throws Error(invalid_argument) for radices that cannot be.
  ScheduleCache(const ReplicaLayout& layout, std::span<const int> node_leaders, int rank,
                const ScheduleOptions& options, NodeMeans means = NodeMeans::messages);

  /// The schedule for an all-reduce of `bytes` bytes; none where direct exchange is the plan, and inside one node. It
  /// begins inside the nodes where their ranks share memory.
  [[nodiscard]] std::shared_ptr<const RankSchedule> find(std::int64_t bytes);
  [[nodiscard]] const std::string& forced_radices() const noexcept { return options_.radices; }

 private:
  [[nodiscard]] std::shared_ptr<const RankSchedule> plan(std::int64_t bytes) const;

  std::shared_ptr<const RankLayout> layout_;
  int rank_;
  ScheduleOptions options_;
  NodeMeans means_;
  std::optional<RadixPattern> forced_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<const RankSchedule>> plans_;  // by size class; guarded by mutex_
};

}  // namespace lockstep::detail
