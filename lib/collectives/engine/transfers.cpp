// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/transfers.hpp"

#include <utility>

namespace lockstep::detail {

std::span<std::byte> Transfers::new_buffer(Workspace& workspace, std::size_t bytes) {
  buffers_.push_back(workspace.take(bytes));
  return buffers_.back().first(bytes);
}

const std::byte* Transfers::receive(Transport& transport, Workspace& workspace, int source, std::size_t bytes) {
  const std::span<std::byte> buffer = new_buffer(workspace, bytes);
  receives_.push_back({transport.receive(source, buffer), source});
  return buffer.data();
}

void Transfers::send(Transport& transport, int target, std::span<const std::byte> data) {
  sends_.push_back(transport.send(target, data));
}

bool Transfers::all_received(Transport& transport) {
  std::erase_if(receives_, [&](const Receive& receive) { return transport.test(receive.transfer); });
  return receives_.empty();
}

bool Transfers::all_sent(Transport& transport) {
  std::erase_if(sends_, [&](Transfer transfer) { return transport.test(transfer); });
  return sends_.empty();
}

std::vector<int> Transfers::awaited_ranks() const {
  std::vector<int> ranks;
  for (const Receive& receive : receives_) ranks.push_back(receive.source);
  return ranks;
}

void Transfers::release(Workspace& workspace) {
  for (auto& buffer : buffers_) workspace.give_back(std::move(buffer));
  buffers_.clear();
}

void Transfers::abandon(Transport& transport) noexcept {
  std::vector<Transfer> transfers = std::move(sends_);
  for (const Receive& receive : receives_) transfers.push_back(receive.transfer);
  sends_.clear();
  receives_.clear();
  transport.abandon(transfers, std::move(buffers_));
  buffers_.clear();
}

}  // namespace lockstep::detail
