// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/pair_operation.hpp"

#include "kernels/copy.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace lockstep::detail {
namespace {

using Word = std::uint64_t;
constexpr Word valid = 1;
constexpr Word nothing = 0;

std::size_t byte_count(const HostItem& item) { return static_cast<std::size_t>(item.count()) * size_of(item.dtype); }

std::size_t total_size(const std::vector<HostItem>& items) {
  std::size_t bytes = 0;
  for (const HostItem& item : items) bytes += byte_count(item);
  return bytes;
}

/// Calls `visit(item, first, begin, count)` for each item that has some of the `bytes` bytes from `offset` on: `count`
/// bytes from byte `first` of the item on, which are byte `begin` of these bytes and the following ones.
template <class Visit>
void for_each_part(const std::vector<HostItem>& items, std::size_t offset, std::size_t bytes, const Visit& visit) {
  std::size_t begin = 0;
  for (const HostItem& item : items) {
    if (bytes == begin) return;
    const std::size_t size = byte_count(item);
    if (offset >= size) {
      offset -= size;
      continue;
    }
    const std::size_t count = std::min(size - offset, bytes - begin);
    visit(item, offset, begin, count);
    begin += count;
    offset = 0;
  }
}

}  // namespace

PairOperation::PairOperation(const Descriptor& descriptor, Role role, int peer, std::vector<HostItem> items,
                             std::unique_ptr<HostCopies> copies)
    : Operation(descriptor),
      role_(role),
      peer_(peer),
      copies_(std::move(copies)),
      items_(std::move(items)),
      bytes_(total_size(items_)) {}

const void* PairOperation::only_input() const noexcept {
  return items_.size() == 1 ? items_.front().inputs.front() : nullptr;
}

void PairOperation::pack(std::size_t offset, std::span<std::byte> to) const noexcept {
  for_each_part(items_, offset, to.size(),
                [&](const HostItem& item, std::size_t first, std::size_t begin, std::size_t count) {
                  copy_bytes(&to[begin], static_cast<const std::byte*>(item.inputs.front()) + first, count);
                });
}

void PairOperation::unpack(std::size_t offset, std::span<const std::byte> from) const noexcept {
  for_each_part(items_, offset, from.size(),
                [&](const HostItem& item, std::size_t first, std::size_t begin, std::size_t count) {
                  copy_bytes(static_cast<std::byte*>(item.outputs.front()) + first, &from[begin], count);
                });
}

void PairOperation::deliver() {
  if (copies_ != nullptr && role_ == Role::receive) copies_->deliver();
  has_begun_delivery_ = true;
}

std::span<std::byte> PairOperation::message() const { return buffer_.first(sizeof(Word) + bytes_); }

void PairOperation::start_by_number(Transport& transport, Workspace& workspace) {
  const bool is_in_one_piece = items_.size() == 1;
  if (!is_in_one_piece && buffer_.size() < bytes_) buffer_ = workspace.take(bytes_);
  if (role_ == Role::send) {
    if (!is_in_one_piece) pack(0, buffer_.first(bytes_));
    const auto* const data = is_in_one_piece ? static_cast<const std::byte*>(only_input()) : buffer_.first(0).data();
    transfer_ = transport.send_by_number(peer_, number_, {data, bytes_});
  } else {
    auto* const data =
        is_in_one_piece ? static_cast<std::byte*>(items_.front().outputs.front()) : buffer_.first(0).data();
    transfer_ = transport.receive_by_number(peer_, number_, {data, bytes_});
  }
  is_by_number_ = is_under_way_ = true;
}

void PairOperation::start(Transport& transport, Workspace& workspace) {
  if (transport.has_transfers_by_number()) return start_by_number(transport, workspace);
  const std::size_t size = sizeof(Word) + bytes_;
  if (buffer_.size() < size) buffer_ = workspace.take(size);  // else there was no memory for the transfer
  if (role_ == Role::send) {
    std::memcpy(message().data(), &valid, sizeof(Word));
    pack(0, message().subspan(sizeof(Word)));
    transfer_ = transport.send_aside(peer_, message());
  } else {
    transfer_ = transport.receive_aside(peer_, message());
  }
  is_under_way_ = true;
}

Transfer PairOperation::start_void(Transport& transport, Workspace& workspace, int target, std::size_t bytes,
                                   Buffer& buffer) {
  buffer = workspace.take(sizeof(Word) + bytes);
  const std::span<std::byte> message = buffer.first(sizeof(Word) + bytes);
  std::memset(message.data(), 0, message.size());
  std::memcpy(message.data(), &nothing, sizeof(Word));
  return transport.send_aside(target, message);
}

bool PairOperation::advance(Transport& transport, Workspace& workspace) {
  if (has_begun_delivery_) return is_delivered();
  if (is_under_way_) {
    if (!transport.test(transfer_)) return false;
    is_under_way_ = false;
  }
  if (role_ == Role::receive && is_by_number_) {
    if (items_.size() != 1) unpack(0, buffer_.first(bytes_));
  } else if (role_ == Role::receive) {
    Word word = nothing;
    std::memcpy(&word, message().data(), sizeof(Word));
    if (word != valid) return false;
    unpack(0, message().subspan(sizeof(Word)));
  }
  deliver();
  workspace.give_back(std::move(buffer_));
  return is_delivered();
}

bool PairOperation::abandon(Transport& transport) noexcept {
  if (!std::exchange(is_under_way_, false)) {
    buffer_ = Buffer();
    return false;
  }
  leave(transport, transfer_, std::move(buffer_));
  return true;
}

void PairOperation::leave(Transport& transport, Transfer transfer, Buffer&& buffer) noexcept {
  std::vector<Buffer> buffers;
  if (buffer.size() > 0) {
    try {
      buffers.push_back(std::move(buffer));
    } catch (const std::bad_alloc&) {
      buffer.leak();
    }
  }
  transport.abandon(std::span(&transfer, 1), std::move(buffers));
}

}  // namespace lockstep::detail
