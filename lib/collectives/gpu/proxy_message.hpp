// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The two messages of one operation between a proxy and its client: the client's inputs one way, its results the other.
// Both ranks compute the layout of both messages.

#pragma once

#include "collectives/call/descriptor.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/gpu/group.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::detail {

struct ProxyTensor {
  std::size_t item = 0;
  int replica = -1;  ///< its owner; -1: the root's input, or a result that all replicas of the client share
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

/// Tensors in memory, aligned to 64 bytes.
struct ProxyMessage {
  std::vector<ProxyTensor> tensors;  ///< by item, then by replica
  std::size_t bytes = 0;
};

/// The client's inputs, after one byte per item that says whether the client wants the result that its replicas share.
[[nodiscard]] ProxyMessage message_to_server(const Descriptor& descriptor, const GpuGroup& group,
                                             const ProxiedRank& client, std::span<const HostItem> items);
/// The client's results; a result that its replicas share only if its byte in `wanted` is set.
[[nodiscard]] ProxyMessage message_to_client(const Descriptor& descriptor, const GpuGroup& group,
                                             const ProxiedRank& client, std::span<const HostItem> items,
                                             std::span<const std::byte> wanted);

}  // namespace lockstep::detail
