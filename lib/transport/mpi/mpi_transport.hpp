// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport over MPI point-to-point messages: Isend and Irecv, MPI-3.1 calls only. Messages between ranks of a node
// that share memory go through the queues of shm/control_queues.

#pragma once

#include "bindings/mpi/mpi.hpp"
#include "cluster/job.hpp"
#include "cluster/settings.hpp"
#include "transport/mpi/creation_wait.hpp"
#include "transport/tcp/network.hpp"
#include "transport/transport.hpp"

#include <memory>

namespace lockstep::detail {

struct BetweenNodes {
  TransportSetting transport = TransportSetting::mpi;
  TcpOptions tcp = {};  ///< unused with `mpi`
};

/// Makes a transport over a duplicate of `comm`. Collective over `comm`. If the deadline of `limits` passes, throws
/// Error(deadline_exceeded), which names the missing ranks if there is an Environment. A failed creation counts as an
/// attempt, too: if the ranks try again, MPI matches the k-th attempt of each rank over `comm`. No MPI message is
/// longer than `segment_bytes`, since counts in MPI-3.1 are `int`. `segment_bytes` must be a multiple of 8, and equal
/// on all ranks. There is a node group if all ranks set `share_memory`, are on one node, and can map each other's
/// arenas. If the ranks are on several nodes, there are local groups under the same conditions on every node. Without
/// an Environment, MPI_Comm_split_type finds the nodes after all ranks have arrived; MPI_Comm_split_type has no
/// deadline. `between_nodes` is what moves data between ranks that share no memory; if ranks differ in `transport`,
/// throws Error(mismatch) on all of them. With `automatic`, they choose, by what they measure, or as an earlier
/// communicator of theirs has chosen.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, bool share_memory,
                                                            std::size_t segment_bytes = std::size_t{1} << 30,
                                                            const CreationLimits& limits = {},
                                                            const BetweenNodes& between_nodes = {});

/// Makes a transport over the ranks of `job` that uses messages only. All groups that are made from this transport
/// contain all of its ranks, in the same order. There is at most one such transport. It keeps the job.
/// `between_nodes`: for the groups that are made from it. Local.
[[nodiscard]] std::unique_ptr<Transport> make_job_transport(const std::shared_ptr<const Job>& job, bool share_memory,
                                                            const BetweenNodes& between_nodes = {});

}  // namespace lockstep::detail
