// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What an all-reduce would cost: the steps of mixed_radix, walked and priced.
//
// A message costs its sender and its receiver `overhead_us` of CPU time each, and takes a latency. All ranks of a node
// share one port to the network, full duplex; inside the node a message is a copy. Adding k arrays touches k + 1 of
// them in memory. A stage with s messages out of each rank, the largest of m bytes, and b bytes through the port takes
//   latency + max(overhead + b / port, s overhead + m / port) + receive,   at least (all messages) overhead
// where `receive` is one overhead, or (s + 1) / 2 of them where the port is what holds the stage up and all messages
// end together; messages of 64 KiB and more land without the CPU. Stages add up. A vector that is cut into chunks
// takes the time of one, and for each further one that of the busier of port and CPU.
//
// After LogGP (Alexandrov et al. 1995); the shape of a stage was fitted to simulations with SimGrid's SMPI. It knows no
// noise, no switches and no skewed arrival: ratios between schedules mean something, microseconds little.

#pragma once

#include "schedule/mixed_radix.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::detail {

struct CostParameters {
  double overhead_us = 0.25;     ///< CPU time of one send or receive
  double latency_us = 1.0;       ///< from node to node
  double port_gbs = 12.5;        ///< 10^9 bytes per second and direction of a node's port
  double node_latency_us = 0.2;  ///< inside a node
  double node_gbs = 20;          ///< of one rank's copies inside its node
  double memory_gbs = 40;        ///< loads and stores of one rank that adds
  friend bool operator==(const CostParameters&, const CostParameters&) = default;
};

/// What the busiest rank, and the busiest port, have to do in one stage in one direction.
struct StageLoad {
  double sends = 0;          ///< messages out of a rank
  double receives = 0;       ///< messages into a rank
  double largest_bytes = 0;  ///< of one message
  double port_bytes = 0;     ///< through the port of a node, in the busier direction
  double node_bytes = 0;     ///< a rank's own, to ranks of its node
  double added_bytes = 0;    ///< loaded and stored by a rank's sums
  bool leaves_node = false;
};

struct ScheduleLoad {
  std::vector<StageLoad> stages;  ///< as they run: forth, then back
  std::int64_t messages = 0;      ///< sent by the busiest rank
  std::int64_t bytes = 0;         ///< sent by the busiest rank
};

/// Whose steps are counted.
enum class Walked : std::uint8_t {
  few,      ///< three nodes': a first look, never above the others
  all,      ///< every rank's
  telling,  ///< up to 128 ranks all; beyond, the nodes at the ends of each level's groups and some between, whose like
            ///< the others are; within 10 % of all
};

/// Counts what `schedule` does with a vector of `bytes` bytes, as if it could be cut anywhere.
[[nodiscard]] ScheduleLoad schedule_load(const MixedRadix& schedule, std::int64_t bytes,
                                         Walked walked = Walked::telling);

/// Time of one stage that moves 1/chunks of `load`.
[[nodiscard]] double stage_us(const CostParameters& parameters, const StageLoad& load, int chunks);
/// Time of all stages, of a vector cut into `chunks`.
[[nodiscard]] double schedule_us(const CostParameters& parameters, const std::vector<StageLoad>& stages, int chunks);

}  // namespace lockstep::detail
