// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of an all-reduce: the sum of the prices of the steps of a mixed-radix schedule.
//
// A message costs `overhead_us` of CPU time on its sender, and the same on its receiver, and has a latency. All ranks
// of a node share one full-duplex port to the network. A message inside a node is a copy. Adding k arrays touches k + 1
// arrays in memory. In a stage, let each rank send s messages, let m be the bytes of the largest message, and let b be
// the bytes that pass through the port. The stage takes
//   latency + max(overhead + b / port, s overhead + m / port) + receive
// but at least one overhead for each message that a rank sends or receives. `receive` is one overhead; if the port
// limits the stage, it is (s + 1) / 2 overheads, because all messages end together. Messages of 64 KiB and more are
// received without CPU time. The times of the stages are added. If a vector is cut into segments, the first segment
// takes this time; each further segment adds the larger of its port time and its CPU time.
//
// The agreement that precedes the schedule is priced in the same way: each of its rounds is a stage in which the
// leaders of the nodes exchange headers. Inside a node, the agreement is one transfer of a cache line through shared
// memory to the leader, and one transfer back.
//
// Based on LogGP (Alexandrov et al. 1995). The terms of a stage were fitted to simulations with SimGrid's SMPI. The
// model has no noise, no switches and no skewed arrival: use it to compare schedules, not to predict microseconds.

#pragma once

#include "schedule/mixed_radix.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::detail {

struct CostParameters {
  double overhead_us = 0.25;     ///< CPU time of one send or receive
  double latency_us = 1.0;       ///< latency between nodes
  double port_gbs = 12.5;        ///< bandwidth of a node's port in each direction, in 10^9 bytes per second
  double node_latency_us = 0.2;  ///< latency inside a node
  double node_gbs = 20;          ///< bandwidth of one rank's copies inside its node
  double memory_gbs = 40;        ///< bandwidth of the loads and stores of one rank that adds arrays
  friend bool operator==(const CostParameters&, const CostParameters&) = default;
};

/// The load of the busiest rank, and of the busiest port, in one stage of the reduce-scatter or the all-gather phase.
struct StageLoad {
  double sends = 0;          ///< messages sent by a rank
  double receives = 0;       ///< messages received by a rank
  double largest_bytes = 0;  ///< size of the largest message
  double port_bytes = 0;     ///< bytes through the port of a node, in the busier direction
  double node_bytes = 0;     ///< bytes that a rank exchanges with ranks of its node
  double added_bytes = 0;    ///< bytes loaded and stored by a rank's sums
  bool leaves_node = false;
};

struct ScheduleLoad {
  std::vector<StageLoad> stages;  ///< in execution order: the reduce-scatter phase, then the all-gather phase
  std::int64_t messages = 0;      ///< number of messages sent by the busiest rank
  std::int64_t bytes = 0;         ///< number of bytes sent by the busiest rank
};

/// The ranks whose steps the cost model visits.
enum class WalkedRanks : std::uint8_t {
  few,             ///< the ranks of three nodes; the load is at most that of `all` or `representative`
  all,             ///< every rank
  representative,  ///< up to 128 ranks: all ranks; more ranks: the nodes at both ends of the groups of each level, and
                   ///< some typical nodes between these; the load is within 10 % of that of `all`
};

/// The load of `schedule` for a vector of `bytes` bytes, computed as if a vector could be cut at any fraction of a
/// byte.
[[nodiscard]] ScheduleLoad schedule_load(const MixedRadix& schedule, std::int64_t bytes,
                                         WalkedRanks walked = WalkedRanks::representative);

/// The time of one stage for one segment, if `load` is divided into `segments` equal segments.
[[nodiscard]] double stage_us(const CostParameters& parameters, const StageLoad& load, int segments);
/// The time of all stages, for a vector that is cut into `segments` segments.
[[nodiscard]] double schedule_us(const CostParameters& parameters, const std::vector<StageLoad>& stages, int segments);

/// Size of a message of the agreement that carries no data.
inline constexpr int agreement_header_bytes = 40;

/// The cost of the agreement of all ranks on one call of a collective.
struct AgreementCost {
  double time_us = 0;
  std::int64_t messages = 0;  ///< largest number of messages that a leader sends
  std::int64_t bytes = 0;     ///< largest number of bytes that a leader sends
  friend bool operator==(const AgreementCost&, const AgreementCost&) = default;
};

/// The cost of the agreement if the ranks of each node share memory. `data_bytes` is the size of the vector that the
/// messages of the agreement carry, 0 if the messages carry no vector. Otherwise a message has a header, and one vector
/// for each block of the canonical tree that its sender holds. Each round has the price of its busiest leader and of
/// its largest message. For P ranks, takes O(nodes) time without data, and O(P log P) time with data.
[[nodiscard]] AgreementCost agreement_cost(const RankLayout& layout, const CostParameters& parameters,
                                           std::int64_t data_bytes = 0);

/// The memory that the ranks of a node read in an all-reduce without messages.
enum class NodeReads : std::uint8_t {
  inputs,  ///< all inputs, together with the descriptors of the agreement
  slices,  ///< one slice of all inputs; the sum of the slice is written to all outputs
};

/// The time of an all-reduce of `bytes` bytes in the shared memory of one node with `ranks` ranks, including the
/// agreement.
[[nodiscard]] double node_reduce_us(const CostParameters& parameters, int ranks, std::int64_t bytes, NodeReads reads);

}  // namespace lockstep::detail
