// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport over MPI point-to-point messages: Isend and Irecv, MPI-3.1 calls only.

#pragma once

#include "bindings/mpi/mpi.hpp"
#include "transport/transport.hpp"

#include <memory>

namespace lockstep::detail {

/// Duplicates `comm` twice, for signals and for data. Collective over `comm`. No MPI message is longer than
/// `segment_bytes`, a multiple of 8 that must be equal on all ranks: counts in MPI-3.1 are `int`. There is a node group
/// if all ranks set `share_memory`, are on one node, and can map each other's arenas; under the same conditions on
/// every node there are local groups.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, bool share_memory,
                                                            std::size_t segment_bytes = std::size_t{1} << 30);

}  // namespace lockstep::detail
