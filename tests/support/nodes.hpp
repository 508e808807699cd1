// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads that count as ranks of several nodes.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "collectives/make_communicator.hpp"
#include "support/function_ref.hpp"
#include "support/ranks.hpp"
#include "transport/loopback/loopback_transport.hpp"

#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {

struct NodeLayout {
  std::vector<int> leaders;   ///< by rank, the lowest rank of its node
  std::vector<int> replicas;  ///< by rank
};

/// Whether the ranks of a node share memory, and small data travels with the agreement.
struct NodePaths {
  bool share_memory = true;
  bool carries = true;
};

/// Runs `body(communicator)` on the ranks of `layout`. An exception of `body` ends the program.
inline void on_nodes(const NodeLayout& layout, NodePaths paths, FunctionRef<void(Communicator&)> body) {
  auto transports = detail::make_loopback_transports(layout.leaders, paths.share_memory);
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&transport, &layout, paths, &body] {
      CommunicatorOptions options = minutes_to_fail();
      options.local_replicas = layout.replicas[static_cast<std::size_t>(transport->rank())];
      Communicator comm = CommunicatorAccess::make(std::move(transport), options, ReplicaLayout(layout.replicas),
                                                   {.carries = paths.carries});
      body(comm);
    });
  }
}

}  // namespace lockstep::test
