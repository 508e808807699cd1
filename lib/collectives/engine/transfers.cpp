// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/transfers.hpp"

#include <new>
#include <utility>

namespace lockstep::detail {

std::span<std::byte> Transfers::new_buffer(Workspace& workspace, std::size_t bytes) {
  buffers_.push_back(workspace.take(bytes));
  return buffers_.back().first(bytes);
}

const std::byte* Transfers::receive(Transport& transport, Workspace& workspace, int source, std::size_t bytes) {
  const std::span<std::byte> buffer = new_buffer(workspace, bytes);
  receives_.add(source, [&] { return transport.receive(source, buffer); });
  return buffer.data();
}

void Transfers::send(Transport& transport, int target, std::span<const std::byte> data) {
  sends_.add(target, [&] { return transport.send(target, data); });
}

bool Transfers::all_received(Transport& transport) {
  receives_.test(transport);
  return receives_.is_empty();
}

bool Transfers::all_sent(Transport& transport) {
  sends_.test(transport);
  return sends_.is_empty();
}

std::vector<int> Transfers::awaited_ranks() const { return {receives_.numbers().begin(), receives_.numbers().end()}; }

void Transfers::release(Workspace& workspace) {
  for (auto& buffer : buffers_) workspace.give_back(std::move(buffer));
  buffers_.clear();
}

void Transfers::abandon(Transport& transport) noexcept {
  std::vector<Transfer> transfers = sends_.take();
  const std::vector<Transfer> receives = receives_.take();
  try {
    transfers.insert(transfers.end(), receives.begin(), receives.end());
  } catch (const std::bad_alloc&) {
    for (Buffer& buffer : buffers_) buffer.leak();
    buffers_.clear();
    return;
  }
  transport.abandon(transfers, std::move(buffers_));
  buffers_.clear();
}

}  // namespace lockstep::detail
