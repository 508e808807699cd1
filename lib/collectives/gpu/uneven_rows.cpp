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
  for (const Guest& guest : group_.leaders().guests()) {
    if (guest.rank == group_.rank()) tell(transport, workspace, guest);
    const bool is_here = group_.leaders()[guest.leader].rank == group_.rank();
    heard_.push_back(is_here ? transfers_.receive(transport, workspace, guest.rank, message_bytes(guest)) : nullptr);
  }
}

bool UnevenRows::advance(Transport& transport, Workspace& workspace) {
  if (!is_agreed_) {
    if (!agreement_.advance(transport, workspace, transfers_)) return false;
    is_agreed_ = true;
    failure_ = agreement_.failure();
    for (std::size_t i = 0; i < heard_.size(); ++i) {
      if (heard_[i] != nullptr) take(group_.leaders().guests()[i], heard_[i]);
    }
  }
  if (!transfers_.all_sent(transport)) return false;
  transfers_.release(workspace);
  return true;
}

/// By item, by replica of the guest: where the parts of its input begin, then those of its output.
std::size_t UnevenRows::message_bytes(const Guest& guest) const {
  const auto begins = static_cast<std::size_t>(group_.layout().replicas()) + 1;
  return items_.size() * guest.replicas.size() * 2 * begins * sizeof(std::int64_t);
}

void UnevenRows::tell(Transport& transport, Workspace& workspace, const Guest& guest) {
  const std::span<std::byte> message = transfers_.new_buffer(workspace, message_bytes(guest));
  std::byte* next = message.data();
  for (const HostItem& item : items_) {
    for (const int replica : guest.replicas) {
      const std::size_t place = group_.place_of(replica);
      for (const PartBegins* const begins : {&item.input_parts[place], &item.output_parts[place]}) {
        const std::size_t bytes = begins->size() * sizeof(std::int64_t);
        std::memcpy(next, begins->data(), bytes);
        next += bytes;
      }
    }
  }
  transfers_.send(transport, group_.leaders()[guest.leader].rank, message);
}

void UnevenRows::take(const Guest& guest, const std::byte* next) {
  PartBegins begins(static_cast<std::size_t>(group_.layout().replicas()) + 1);
  const std::size_t bytes = begins.size() * sizeof(std::int64_t);
  for (HostItem& item : items_) {
    for (std::size_t i = 0; i < guest.replicas.size(); ++i) {
      for (std::vector<PartBegins>* const parts : {&item.input_parts, &item.output_parts}) {
        std::memcpy(begins.data(), next, bytes);
        next += bytes;
        parts->push_back(begins);
      }
    }
  }
}

}  // namespace lockstep::detail
