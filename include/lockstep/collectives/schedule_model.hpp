// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Estimates the cost of an all_reduce on a cluster that need not exist, by a cost model that follows the steps that
// lockstep would run; and reports the algorithm that lockstep chooses for a size, on a communicator or on such a
// cluster. For choosing machines and for understanding the choices of lockstep; moves no data.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// Description of a cluster. Each node has ranks / nodes ranks, some nodes have one more; each node has one port to a
/// network without bottlenecks of its own. Each rank has one replica.
struct ModelledCluster {
  int ranks = 2;              ///< 1 to 1000000
  int nodes = 2;              ///< 1 to `ranks`
  double latency_us = 1;      ///< between nodes, above 0
  double gbit = 100;          ///< 10^9 bits per second and direction of each node's port, above 0
  double overhead_us = 0.25;  ///< processor time of each send and each receive, above 0
  double memory_gbs = 40;     ///< 10^9 bytes per second that one rank loads and stores while it adds, above 0
};

/// One all_reduce on a ModelledCluster.
struct ModelledAllReduce {
  /// Radices of the stages, nearest ranks first; n: the ranks of a node, r: replicating. If the data travels in the
  /// messages by which the ranks agree on the call, "with the agreement"; on one node, "control blocks" or "slices in
  /// place": what `selected_schedule` says.
  std::string radices;
  int segments = 1;           ///< number of segments of the vector, whose stages overlap
  double time_us = 0;         ///< time of the slowest rank
  double agreement_us = 0;    ///< part of `time_us` until all ranks agree on the call; all of it if data travels there
  std::int64_t messages = 0;  ///< messages of the rank that sends most, those of the agreement included
  std::int64_t bytes = 0;     ///< bytes of the rank that sends most, those of the agreement included
};

/// The time of what lockstep runs for an all_reduce in canonical order of one f32 tensor of `bytes` bytes per rank: the
/// agreement of all ranks on the call with the data, if that is small, else the agreement and then the schedule that
/// `selected_schedule` names. If `radices`, in the form of LOCKSTEP_RADICES ("2.2.f2"), is not empty: the agreement and
/// then that schedule, cut into `segments` segments, or into the best number if that is 0. If only `segments` is given:
/// the agreement and then the planner's radices, cut into that number.
///
/// The rates of `cluster` change the time and not the choice, since lockstep does not measure its network. The ranks of
/// a node share memory; LOCKSTEP_RADICES and LOCKSTEP_SHARED_MEMORY have no effect. On one node, the buffers are in the
/// arena.
///
/// Local. Thread-safe. Throws Error(invalid_argument) that names the field, its value and the rule. Cost: milliseconds
/// at 100000 ranks; grows with the radices and the logarithm of the ranks, plus a few passes over them. The model is
/// LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995) with one port per node; the schedules generalise Thakur,
/// Rabenseifner, Gropp (2005) and Ruefenacht, Bull, Booth (2017). It ignores noise, congestion inside the network and
/// skewed arrival, so trust its ratios more than its microseconds.
[[nodiscard]] LOCKSTEP_API ModelledAllReduce simulate_all_reduce(const ModelledCluster& cluster, std::int64_t bytes,
                                                                 std::string_view radices = {}, int segments = 0);

/// Kind of memory of a call's buffers.
enum class BufferKind : std::uint8_t {
  arena,  ///< memory that the ranks of a node share
  other,  ///< malloc and the like
};

/// The algorithm of an all_reduce in canonical order of one f32 tensor of `bytes` bytes per replica on `communicator`,
/// if the buffers of all ranks are of one kind:
///   "alone"                               there is one rank
///   "control blocks"                      in a node: inputs are copied to control blocks; every rank adds all of them
///   "slices in place"                     in a node: the owner of a slice reads all inputs and writes all outputs
///   "slices through staging, 4 rounds"    the same, with copies of memory that other ranks cannot map
///   "with the agreement"                  between nodes: the data is in the messages by which the ranks agree on the
///                                         call, so there is one exchange; the two below are a second one
///   "direct exchange"                     by messages: every rank receives its slice from all others, and sends them
///   the sum "radices 4.2.8.r4, 2 segments"        by messages, in stages, as ModelledAllReduce writes them
/// Local. Thread-safe. LOCKSTEP_RADICES and LOCKSTEP_SHARED_MEMORY affect the result as they affect the call. Throws
/// Error(invalid_argument) for a negative size.
[[nodiscard]] LOCKSTEP_API std::string selected_schedule(const Communicator& communicator, std::int64_t bytes,
                                                         BufferKind buffers);
/// The same on a described cluster, whose ranks have one replica each. Its rates do not matter: lockstep does not
/// measure its network. Throws as simulate_all_reduce.
[[nodiscard]] LOCKSTEP_API std::string selected_schedule(const ModelledCluster& cluster, std::int64_t bytes,
                                                         BufferKind buffers);

}  // namespace lockstep
