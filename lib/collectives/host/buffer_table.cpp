// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/buffer_table.hpp"

#include "base/check.hpp"

#include <atomic>
#include <cstring>
#include <utility>

namespace lockstep::detail {
namespace {

// A table consists of 64-bit words: the number of words, then for each item the number of outputs, the addresses of the
// inputs, and the addresses of the outputs.

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::size_t input_bytes(const HostItem& item) { return static_cast<std::size_t>(item.count()) * size_of(item.dtype); }
std::size_t output_bytes(const HostItem& item, ReduceOp op) {
  return static_cast<std::size_t>(item.count()) * size_of(result_dtype(op, item.dtype));
}

}  // namespace

OwnTable::OwnTable(NodeGroup& group, std::span<const HostItem> items, ReduceOp op) {
  words_.push_back(0);
  for (const HostItem& item : items) {
    words_.push_back(item.outputs.size());
    items_.push_back({words_.size(), words_.size() + item.inputs.size()});
    for (const void* const input : item.inputs) add(input, input_bytes(item), false);
    for (void* const output : item.outputs) add(output, output_bytes(item, op), true);
  }
  words_.front() = words_.size();
  list(group);
}

void OwnTable::add(const void* data, std::size_t bytes, bool is_output) {
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(data));  // only outputs are written
  buffers_.push_back({words_.size(), {begin, bytes}, is_output});
  words_.push_back(0);
}

void OwnTable::list(NodeGroup& group) {
  unshares_ = group.unshares();  // read first, so that `refresh` notices memory that leaves later
  id_ = next_id();
  is_visible_ = true;
  for (const Buffer& buffer : buffers_) {
    const auto [data, bytes] = std::pair(buffer.bytes.data(), buffer.bytes.size());
    const NodeAddress address = bytes == 0 || group.is_hidden(data) ? NodeAddress::none : group.address_of(data, bytes);
    is_visible_ = is_visible_ && (bytes == 0 || address != NodeAddress::none);
    words_[buffer.word] = static_cast<std::uint64_t>(address);
  }
  const std::size_t bytes = words_.size() * sizeof(std::uint64_t);
  address_ = NodeAddress::none;
  memory_ = group.allocate(bytes);
  if (memory_.data() != nullptr) {
    std::memcpy(memory_.data(), words_.data(), bytes);
    address_ = group.address_of(memory_.data(), bytes);
  }
  if (address_ != NodeAddress::none) return;
  // the table cannot be allocated in shared memory: all buffers are staged
  is_visible_ = false;
  for (const Buffer& buffer : buffers_) words_[buffer.word] = static_cast<std::uint64_t>(NodeAddress::none);
}

void OwnTable::require_outputs(const NodeGroup& group) const {
  if (group.unshares() == unshares_) return;
  for (const Buffer& buffer : buffers_) {
    if (!buffer.is_output || word(buffer.word) == NodeAddress::none) continue;
    if (group.address_of(buffer.bytes.data(), buffer.bytes.size()) != NodeAddress::none) continue;
    throw_error(Code::unavailable,
                "an output of {} bytes left shared memory during the call: it is on one page with an output of another "
                "communicator's call, which failed while a stopped process was writing to that page",
                buffer.bytes.size());
  }
}

std::size_t OwnTable::unshare_outputs(NodeGroup& group) const {
  std::vector<std::span<std::byte>> outputs;
  std::size_t bytes = 0;
  for (const Buffer& buffer : buffers_) {
    if (!buffer.is_output || word(buffer.word) == NodeAddress::none) continue;
    outputs.push_back(buffer.bytes);
    bytes += buffer.bytes.size();
  }
  if (bytes != 0) group.unshare(outputs);
  return bytes;
}

void PeerTable::read(const NodeGroup& group, int rank, NodeAddress address, std::uint64_t id,
                     std::span<const HostItem> items, int replicas, ReduceOp op) {
  id_ = 0;
  replicas_ = static_cast<std::size_t>(replicas);
  inputs_.assign(items.size() * replicas_, nullptr);
  outputs_.clear();
  first_output_.assign(items.size() + 1, 0);
  std::vector<std::uint64_t> words;
  if (address != NodeAddress::none) {
    std::uint64_t count = 0;
    std::memcpy(&count, group.resolve(rank, address, sizeof(count)), sizeof(count));
    words.resize(count);
    const std::size_t bytes = count * sizeof(std::uint64_t);
    std::memcpy(words.data(), group.resolve(rank, address, bytes), bytes);
  }
  std::size_t next = 1;
  const auto resolve = [&](std::size_t bytes) -> std::byte* {
    const auto where = static_cast<NodeAddress>(words[next++]);
    return where == NodeAddress::none ? nullptr : group.resolve(rank, where, bytes);
  };
  for (std::size_t i = 0; i < items.size() && !words.empty(); ++i) {
    const std::uint64_t outputs = words[next++];
    for (std::size_t k = 0; k < replicas_; ++k) inputs_[i * replicas_ + k] = resolve(input_bytes(items[i]));
    for (std::uint64_t k = 0; k < outputs; ++k) outputs_.push_back(resolve(output_bytes(items[i], op)));
    first_output_[i + 1] = outputs_.size();
  }
  id_ = id;
}

}  // namespace lockstep::detail
