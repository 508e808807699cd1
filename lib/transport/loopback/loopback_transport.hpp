// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport between the threads of one process, by queues in memory. For programs without MPI, and for tests.

#pragma once

#include "schedule/levels.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep::detail {

/// Makes `size` connected endpoints, one per rank. If `share_memory` is true, the endpoints have node groups. `places`
/// is by rank; if it is empty, the ranks share all caches.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_loopback_transports(int size, bool share_memory,
                                                                               std::vector<NodePlace> places = {});
/// Functions by which a simulation of a job disturbs the endpoints. The threads of the ranks call them, and they must
/// not wait. Ranks are those of the endpoints that make_loopback_transports has made.
struct LoopbackHooks {
  /// The time from the begin of a message, or of the data of a transfer, until it can be received. Messages between two
  /// ranks never overtake each other.
  std::function<std::chrono::nanoseconds(int source, int target)> delay;
  /// Whether `observer` knows that the process of `rank`, of the same node, has ended.
  std::function<bool(int observer, int rank)> has_ended;
  /// Whether `observer` knows that its connection to `rank`, of another node, has ended. What `rank` has sent before
  /// can still be received. Asked only if one of both has sent something to the other: connections are made when they
  /// are needed. Empty: no rank ever learns that.
  std::function<bool(int observer, int rank)> has_lost;
  /// Whether there are transfers by number.
  bool numbers_transfers = false;
  /// Makes the node groups of the ranks of a node, as make_thread_groups does, which is called if this is empty.
  std::function<std::vector<std::unique_ptr<NodeGroup>>(int size, std::span<const NodePlace> places)> make_groups;
};

/// Makes endpoints that report several nodes. `node_leaders` is as in Transport::node_leaders, `places` as above.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_loopback_transports(const std::vector<int>& node_leaders,
                                                                               bool share_memory = false,
                                                                               LoopbackHooks hooks = {},
                                                                               std::vector<NodePlace> places = {});

}  // namespace lockstep::detail
