// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// These functions help to choose machines, and to understand the choices of lockstep. simulate_all_reduce estimates the
// time of an all_reduce on a described cluster, by a cost model of the steps that lockstep would run. selected_schedule
// returns the algorithm that lockstep chooses for a size, on a communicator or on a described cluster. No function
// moves data.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// Description of a cluster, which need not exist. If `ranks` is not divisible by `nodes`, some nodes have one rank
/// more than the others. Each node has one port to a network that has no bottlenecks of its own. Each rank has one
/// replica.
struct ModelledCluster {
  int ranks = 2;              ///< 1 to 1000000
  int nodes = 2;              ///< 1 to `ranks`
  double latency_us = 1;      ///< latency of a message between nodes, above 0
  double gbit = 100;          ///< bandwidth of a node's port per direction, 10^9 bits per second, above 0
  double overhead_us = 0.25;  ///< processor time of each send and each receive, above 0
  double memory_gbs = 40;     ///< memory bandwidth, loads plus stores, of one rank that adds, 10^9 bytes/s, above 0
};

/// One all_reduce on a ModelledCluster.
struct ModelledAllReduce {
  /// Radices of the stages, nearest ranks first, in the form of LOCKSTEP_RADICES: n for a stage that splits the data
  /// among the ranks of a node, K for a stage that splits the data among K ranks, rK for a stage in which K ranks
  /// exchange all their data (replicate). If there are no stages, the text is the name of the algorithm, as in
  /// `selected_schedule`: "with the agreement" or, on one node, "control blocks" or "slices in place".
  std::string radices;
  int segments = 1;           ///< number of segments of the vector; the stages of different segments overlap
  double time_us = 0;         ///< time of the slowest rank
  double agreement_us = 0;    ///< time of the agreement; equal to `time_us` if the agreement carries the data
  std::int64_t messages = 0;  ///< largest number of messages that a rank sends, including the agreement
  std::int64_t bytes = 0;     ///< largest number of bytes that a rank sends, including the agreement
};

/// Estimates the time of an all_reduce, in canonical order, of one f32 tensor of `bytes` bytes per rank. Every
/// all_reduce begins with the agreement, in which all ranks compare their calls.
///   - Without `radices` and `segments`, the estimate is for what lockstep would run. The messages of the agreement
///     carry the data if it is small. Otherwise, the algorithm that `selected_schedule` names follows the agreement.
///   - With `radices`, in the form of LOCKSTEP_RADICES ("2.2.f2"), a schedule with these radices follows the agreement.
///     It has `segments` segments; if `segments` is 0, it has the number of segments that takes the least time.
///   - With `segments` only, a schedule with the radices of the planner and `segments` segments follows the agreement.
///
/// The rates of `cluster` affect the time but not the schedule that lockstep chooses, because lockstep does not measure
/// its network. The ranks of a node share memory. On one node, all buffers are in the arena. LOCKSTEP_RADICES and
/// LOCKSTEP_SHARED_MEMORY have no effect.
///
/// Local. Thread-safe. Throws Error(invalid_argument), which names the field, its value and the rule. Cost:
/// milliseconds for 100000 ranks. The cost grows with the radices and with the logarithm of the number of ranks; in
/// addition, there are a few passes over all ranks. The model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995)
/// with one port per node; the schedules generalise Thakur, Rabenseifner, Gropp (2005) and Ruefenacht, Bull, Booth
/// (2017). The model ignores noise, congestion inside the network, and ranks that arrive late. So the ratios of its
/// times are more reliable than the times.
[[nodiscard]] LOCKSTEP_API ModelledAllReduce simulate_all_reduce(const ModelledCluster& cluster, std::int64_t bytes,
                                                                 std::string_view radices = {}, int segments = 0);

/// Kind of memory of a call's buffers.
enum class BufferKind : std::uint8_t {
  arena,  ///< memory that the ranks of a node share
  other,  ///< any other memory, such as that of malloc
};

/// The algorithm of an all_reduce, in canonical order, of one f32 tensor of `bytes` bytes per replica on
/// `communicator`, if the buffers of all ranks are of kind `buffers`. The result is one of these texts (the numbers are
/// examples):
///   "alone"                             there is one rank
///   "control blocks"                    in shared memory: each rank copies its inputs to its control block (a small
///                                       shared buffer), and adds the inputs of all ranks
///   "slices in place"                   in shared memory: each rank reads its slice of all inputs, and writes its
///                                       slice of all outputs
///   "slices through staging, 4 rounds"  as "slices in place", but the data is copied to and from staging memory,
///                                       because other ranks cannot map the buffers
///   "with the agreement, levels 8.8.2"  in shared memory, on a node with many ranks: the data is beside the flags of
///                                       the agreement, in which a rank reads the 8 ranks of a cache domain, then one
///                                       rank of each of the 8 domains of its socket, then one rank of each socket
///   "levels 8.8.r2"                     in shared memory after the agreement: in each level, the ranks divide the data
///                                       or, after r, exchange all of it
///   "with the agreement"                by messages: the messages of the agreement carry the data
///   "direct exchange"                   by messages after the agreement: each rank receives its slice from all other
///                                       ranks, adds, and sends the result to them
///   "radices 4.2.8.r4, 2 segments"      by messages after the agreement, in stages with these radices (see
///                                       ModelledAllReduce::radices)
/// Local. Thread-safe. LOCKSTEP_RADICES and LOCKSTEP_SHARED_MEMORY affect the result in the same way as they affect an
/// all_reduce. Throws Error(invalid_argument) for a negative size.
[[nodiscard]] LOCKSTEP_API std::string selected_schedule(const Communicator& communicator, std::int64_t bytes,
                                                         BufferKind buffers);
/// The algorithm that the function above would return on a described cluster. The rates of `cluster` have no effect,
/// because lockstep does not measure its network. Throws as simulate_all_reduce.
[[nodiscard]] LOCKSTEP_API std::string selected_schedule(const ModelledCluster& cluster, std::int64_t bytes,
                                                         BufferKind buffers);

}  // namespace lockstep
