// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport over MPI point-to-point messages: Isend and Irecv, MPI-3.1 calls only.

#pragma once

#include "bindings/mpi/mpi.hpp"
#include "transport/transport.hpp"

#include <memory>

namespace lockstep::detail {

/// Duplicates `comm` (twice: signals and data). Collective over `comm`. No MPI message is longer than `piece_bytes`, a
/// multiple of 8 and equal on all ranks: MPI-3.1 counts are `int`. There is a node group if all ranks say
/// `share_memory`, live on one node and see each other's arenas; the same of each node makes local groups.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, bool share_memory,
                                                            std::size_t piece_bytes = std::size_t{1} << 30);

}  // namespace lockstep::detail
