// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport over MPI point-to-point messages: Isend and Irecv, MPI-3.1 calls only.

#pragma once

#include "bindings/mpi/mpi.hpp"
#include "cluster/job.hpp"
#include "transport/mpi/creation_wait.hpp"
#include "transport/transport.hpp"

#include <memory>

namespace lockstep::detail {

/// Duplicates `comm`. Collective over `comm`, polled with the deadline of `limits`: Error(deadline_exceeded) names the
/// missing ranks if there is an Environment, and the creation counts as one on this rank: if the ranks try again, the
/// k-th attempt of each rank over `comm` belongs together. No MPI message is longer than `segment_bytes`, a multiple of
/// 8 that must be equal on all ranks: counts in MPI-3.1 are `int`. There is a node group if all ranks set
/// `share_memory`, are on one node, and can map each other's arenas; under the same conditions on every node there are
/// local groups. Without an Environment MPI_Comm_split_type finds the nodes, without a bound, when all ranks have come.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, bool share_memory,
                                                            std::size_t segment_bytes = std::size_t{1} << 30,
                                                            const CreationLimits& limits = {});

/// A transport over the ranks of `job`, by messages alone. Only groups of all ranks in their order are made of it. It
/// must be destroyed before the job, and there is one of them. Local.
[[nodiscard]] std::unique_ptr<Transport> make_job_transport(const Job& job, bool share_memory);

}  // namespace lockstep::detail
