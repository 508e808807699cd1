// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What an all_reduce would cost on a cluster that is not here: the steps that lockstep would run, walked through a cost
// model. For choosing machines and for understanding lockstep's own choices; it moves no data.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// A cluster by a few numbers. Nodes hold ranks / nodes ranks each, some one more; each node has one port to a network
/// without bottlenecks of its own. Each rank has one replica.
struct ModelledCluster {
  int ranks = 2;              ///< 1 to 1000000
  int nodes = 2;              ///< 1 to `ranks`
  double latency_us = 1;      ///< from node to node, above 0
  double gbit = 100;          ///< 10^9 bits per second and direction of each node's port, above 0
  double overhead_us = 0.25;  ///< processor time of each send and each receive, above 0
  double memory_gbs = 40;     ///< 10^9 bytes per second that one rank loads and stores while it adds, above 0
};

/// One all_reduce on a ModelledCluster.
struct ModelledAllReduce {
  std::string radices;        ///< of the stages, nearest ranks first; n: the ranks of a node, r: replicating
  int segments = 1;           ///< into which the vector is cut, so that stages overlap
  double time_us = 0;         ///< of the slowest rank
  std::int64_t messages = 0;  ///< sent by the rank that sends most
  std::int64_t bytes = 0;     ///< sent by the rank that sends most
};

/// The time of an all_reduce of `bytes` bytes per rank, with the radices that lockstep's planner chooses, or with
/// `radices` where that is not empty, in the form of LOCKSTEP_RADICES ("2.2.f2"); cut into `segments`, or into the
/// best number where that is 0.
/// Local. Thread-safe. Throws Error(invalid_argument) that names the field, its value and the rule.
/// Cost: milliseconds at 100000 ranks; grows with the radices and the logarithm of the ranks, plus one pass over them.
/// The model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995) with one port per node; the schedules generalise
/// Thakur, Rabenseifner, Gropp (2005) and Ruefenacht, Bull, Booth (2017). It knows no noise, no congestion inside the
/// network and no skewed arrival, so trust its ratios more than its microseconds.
[[nodiscard]] LOCKSTEP_API ModelledAllReduce simulate_all_reduce(const ModelledCluster& cluster, std::int64_t bytes,
                                                                 std::string_view radices = {}, int segments = 0);

}  // namespace lockstep
