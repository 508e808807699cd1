// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport between ranks of an MPI job whose messages and transfers go over TCP (tcp/network), but for those between
// ranks of a node that share memory. MPI has started the job and told the addresses.

#pragma once

#include "transport/mpi/mpi_group.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <memory>

namespace lockstep::detail {

/// Makes a transport over `ranks`, whose network is not null. Local.
[[nodiscard]] std::unique_ptr<Transport> make_tcp_transport(MpiRanks ranks, std::uint64_t number,
                                                            std::unique_ptr<NodeGroup> group);

}  // namespace lockstep::detail
