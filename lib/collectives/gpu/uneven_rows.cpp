// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/uneven_rows.hpp"

#include <cstdint>
#include <cstring>
#include <span>

namespace lockstep::detail {

UnevenRows::UnevenRows(const GpuGroup& group, std::vector<HostItem>& items)
    : group_(group), items_(items), agreement_(group.layout(), group.rank(), items) {}

void UnevenRows::start(Transport& transport, Workspace& workspace) {
  agreement_.start(transport, workspace, transfers_);
  for (const ProxiedRank& client : group_.leaders().proxied_ranks()) {
    if (client.rank == group_.rank()) send_rows(transport, workspace, client);
    const bool is_here = group_.leaders()[client.leader].rank == group_.rank();
    received_.push_back(is_here ? transfers_.receive(transport, workspace, client.rank, message_bytes(client))
                                : nullptr);
  }
}

bool UnevenRows::advance(Transport& transport, Workspace& workspace) {
  if (!is_agreed_) {
    if (!agreement_.advance(transport, workspace, transfers_)) return false;
    is_agreed_ = true;
    failure_ = agreement_.failure();
    for (std::size_t i = 0; i < received_.size(); ++i) {
      if (received_[i] != nullptr) read_rows(group_.leaders().proxied_ranks()[i], received_[i]);
    }
  }
  if (!transfers_.all_sent(transport)) return false;
  transfers_.release(workspace);
  return true;
}

/// The message lists, by item and by replica of the client, where the parts of its input begin, then those of its
/// output.
std::size_t UnevenRows::message_bytes(const ProxiedRank& client) const {
  const auto begins = static_cast<std::size_t>(group_.layout().replicas()) + 1;
  return items_.size() * client.replicas.size() * 2 * begins * sizeof(std::int64_t);
}

void UnevenRows::send_rows(Transport& transport, Workspace& workspace, const ProxiedRank& client) {
  const std::span<std::byte> message = transfers_.new_buffer(workspace, message_bytes(client));
  std::byte* next = message.data();
  for (const HostItem& item : items_) {
    for (const int replica : client.replicas) {
      const std::size_t place = group_.place_of(replica);
      for (const PartBegins* const begins : {&item.input_parts[place], &item.output_parts[place]}) {
        const std::size_t bytes = begins->size() * sizeof(std::int64_t);
        std::memcpy(next, begins->data(), bytes);
        next += bytes;
      }
    }
  }
  transfers_.send(transport, group_.leaders()[client.leader].rank, message);
}

void UnevenRows::read_rows(const ProxiedRank& client, const std::byte* next) {
  PartBegins begins(static_cast<std::size_t>(group_.layout().replicas()) + 1);
  const std::size_t bytes = begins.size() * sizeof(std::int64_t);
  for (HostItem& item : items_) {
    for (std::size_t i = 0; i < client.replicas.size(); ++i) {
      for (std::vector<PartBegins>* const parts : {&item.input_parts, &item.output_parts}) {
        std::memcpy(begins.data(), next, bytes);
        next += bytes;
        parts->push_back(begins);
      }
    }
  }
}

}  // namespace lockstep::detail
