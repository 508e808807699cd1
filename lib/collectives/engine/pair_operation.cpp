// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/pair_operation.hpp"

#include <cstring>
#include <utility>

namespace lockstep::detail {
namespace {

using Word = std::uint64_t;
constexpr Word valid = 1;
constexpr Word nothing = 0;

std::size_t byte_count(const HostItem& item) { return static_cast<std::size_t>(item.count()) * size_of(item.dtype); }

std::size_t message_size(const std::vector<HostItem>& items) {
  std::size_t bytes = sizeof(Word);
  for (const HostItem& item : items) bytes += byte_count(item);
  return bytes;
}

}  // namespace

PairOperation::PairOperation(const Descriptor& descriptor, Role role, int peer, std::vector<HostItem> items,
                             std::unique_ptr<HostCopies> copies)
    : Operation(descriptor),
      role_(role),
      peer_(peer),
      copies_(std::move(copies)),
      items_(std::move(items)),
      bytes_(message_size(items_)) {}

void PairOperation::start(Transport& transport, Workspace& workspace) {
  buffer_ = workspace.take(bytes_);
  if (role_ == Role::send) {
    std::byte* next = message().data();
    std::memcpy(next, &valid, sizeof(Word));
    next += sizeof(Word);
    for (const HostItem& item : items_) {
      if (byte_count(item) != 0) std::memcpy(next, item.inputs.front(), byte_count(item));
      next += byte_count(item);
    }
    transfer_ = transport.send_aside(peer_, message());
  } else {
    transfer_ = transport.receive_aside(peer_, message());
  }
  is_under_way_ = true;
}

void PairOperation::start_void(Transport& transport, Workspace& workspace) {
  buffer_ = workspace.take(bytes_);
  std::memset(message().data(), 0, bytes_);
  std::memcpy(message().data(), &nothing, sizeof(Word));
  transfer_ = transport.send_aside(peer_, message());
  is_under_way_ = true;
}

bool PairOperation::advance(Transport& transport, Workspace& workspace) {
  if (is_unpacked_) return copies_ == nullptr || copies_->is_done();
  if (is_under_way_) {
    if (!transport.test(transfer_)) return false;
    is_under_way_ = false;
  }
  if (role_ == Role::receive) {
    Word word = nothing;
    std::memcpy(&word, message().data(), sizeof(Word));
    if (word != valid) return false;
    unpack();
    if (copies_ != nullptr) copies_->deliver();
  }
  is_unpacked_ = true;
  workspace.give_back(std::move(buffer_));
  return copies_ == nullptr || copies_->is_done();
}

void PairOperation::unpack() const {
  const std::byte* next = message().data() + sizeof(Word);
  for (const HostItem& item : items_) {
    if (byte_count(item) != 0) std::memcpy(item.outputs.front(), next, byte_count(item));
    next += byte_count(item);
  }
}

bool PairOperation::abandon(Transport& transport) noexcept {
  if (is_under_way_) transport.quarantine(std::move(buffer_));
  return std::exchange(is_under_way_, false);
}

}  // namespace lockstep::detail
