// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/proxy_message.hpp"

#include <cstdint>

namespace lockstep::detail {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

void add(ProxyMessage& message, std::size_t item, int replica, std::size_t bytes) {
  message.tensors.push_back({item, replica, message.bytes, bytes});
  message.bytes += aligned(bytes);
}

/// Number of elements of all parts.
std::int64_t count_of(const HostItem& item, const PartBegins& begins) { return begins.back() * item.row_elements; }

std::size_t input_bytes(const Traits& kind, const GpuGroup& group, const HostItem& item, int replica) {
  std::int64_t count = item.count();
  if (kind.gathers()) {
    count = item.part_begin(replica + 1) - item.part_begin(replica);
  } else if (kind.scatters()) {
    count = count_of(item, item.input_parts.front());
  } else if (kind.rows == Rows::own) {
    count = count_of(item, item.input_parts[group.place_of(replica)]);
  }
  return static_cast<std::size_t>(count) * size_of(item.dtype);
}

std::size_t result_bytes(const Descriptor& descriptor, const GpuGroup& group, const HostItem& item, int replica) {
  const Traits& kind = descriptor.traits();
  const int replicas = group.layout().replicas();
  std::int64_t count = item.count();
  if (kind.gathers()) {
    count = item.part_begin(replicas);
  } else if (kind.scatters()) {
    const auto part = item.input_parts.front().begin() + replica;
    count = (part[1] - part[0]) * item.row_elements;
  } else if (kind.rows == Rows::own) {
    count = count_of(item, item.output_parts[group.place_of(replica)]);
  } else if (kind.reduces() && kind.has_own_outputs()) {
    count /= replicas;
  }
  const DType dtype = kind.reduces() ? result_dtype(descriptor.op, item.dtype) : item.dtype;
  return static_cast<std::size_t>(count) * size_of(dtype);
}

}  // namespace

ProxyMessage message_to_server(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
                               std::span<const HostItem> items) {
  ProxyMessage message;
  message.bytes = aligned(items.size());
  const bool is_from_root = descriptor.traits().inputs == Place::root;
  // a root with several GPUs sends its input to the leader of its first replica only
  if (is_from_root && (client.rank != descriptor.root || group.leaders().of_rank(client.rank) != client.leader))
    return message;
  const std::vector<int> root{-1};
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const int replica : is_from_root ? root : client.replicas)
      add(message, i, replica, input_bytes(descriptor.traits(), group, items[i], replica));
  }
  return message;
}

ProxyMessage message_to_client(const Descriptor& descriptor, const GpuGroup& group, const ProxiedRank& client,
                               std::span<const HostItem> items, std::span<const std::byte> wanted) {
  ProxyMessage message;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (descriptor.traits().has_own_outputs()) {
      for (const int replica : client.replicas)
        add(message, i, replica, result_bytes(descriptor, group, items[i], replica));
    } else if (wanted[i] != std::byte{0}) {
      add(message, i, -1, result_bytes(descriptor, group, items[i], -1));
    }
  }
  return message;
}

}  // namespace lockstep::detail
