// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport between the threads of one process, by queues in memory. For programs without MPI, and for tests.

#pragma once

#include "schedule/levels.hpp"
#include "transport/transport.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// Makes `size` connected endpoints, one per rank. If `share_memory` is true, the endpoints have node groups. `places`
/// is by rank; if it is empty, the ranks share all caches.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_loopback_transports(int size, bool share_memory,
                                                                               std::vector<NodePlace> places = {});
/// Makes endpoints that report several nodes. `node_leaders` is as in Transport::node_leaders.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_loopback_transports(const std::vector<int>& node_leaders,
                                                                               bool share_memory = false);

}  // namespace lockstep::detail
