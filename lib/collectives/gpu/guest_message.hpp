// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a guest and its leader send each other in one operation: one message each way, whose layout both work out.

#pragma once

#include "collectives/call/descriptor.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/gpu/group.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::detail {

struct GuestTensor {
  std::size_t item = 0;
  int replica = -1;  ///< whose it is; -1: the root's input, a result that all replicas of the guest share
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

/// Tensors in memory, aligned to 64 bytes.
struct GuestMessage {
  std::vector<GuestTensor> tensors;  ///< by item, then by replica
  std::size_t bytes = 0;
};

/// The guest's inputs, behind a byte for each item: whether the guest wants a result of it that all share.
[[nodiscard]] GuestMessage message_to_leader(const Descriptor& descriptor, const GpuGroup& group, const Guest& guest,
                                             std::span<const HostItem> items);
/// The guest's results; of those that all share the ones that it wants.
[[nodiscard]] GuestMessage message_to_guest(const Descriptor& descriptor, const GpuGroup& group, const Guest& guest,
                                            std::span<const HostItem> items, std::span<const std::byte> wanted);

}  // namespace lockstep::detail
