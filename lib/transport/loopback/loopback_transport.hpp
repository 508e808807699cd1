// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport between threads of one process: queues in memory. For programs without MPI, and for tests.

#pragma once

#include "transport/transport.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// `size` connected ends, one per rank; with node groups if `share_memory`.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_loopback_transports(int size, bool share_memory);
/// The same, as if the ranks were on several nodes; `node_leaders` as in Transport.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_loopback_transports(const std::vector<int>& node_leaders,
                                                                               bool share_memory = false);

}  // namespace lockstep::detail
