// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/node_group.hpp"

#include "base/check.hpp"

#include <lockstep/device/arena.hpp>

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

namespace lockstep::detail {

NodeMemory::NodeMemory(NodeMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), free_(other.free_) {}

NodeMemory& NodeMemory::operator=(NodeMemory&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    free_ = other.free_;
  }
  return *this;
}

void NodeMemory::reset() noexcept {
  if (data_ != nullptr) free_(data_, bytes_);
  data_ = nullptr;
}

void NodeMemory::leak() noexcept {
  data_ = nullptr;
  bytes_ = 0;
}

void NodeGroup::reserve(NodeMemory& memory, StagingUse& use, std::size_t bytes) {
  bytes = std::max(bytes, page_bytes());  // at least a page, so that staging memory never shares a page with a tensor
  use.most_bytes = std::max(use.most_bytes, bytes);
  if (++use.count > staging_history) {
    if (memory.size() > 2 * use.most_bytes) memory = NodeMemory();
    use = {bytes, 1};
  }
  if (memory.size() >= bytes) return;
  memory = NodeMemory();
  // a power of two, so that sizes that grow slowly need few allocations; exactly `bytes` if the arena is nearly full
  memory = allocate(std::bit_ceil(bytes));
  if (memory.data() == nullptr) memory = allocate(bytes);
  if (memory.data() == nullptr) {
    throw_error(Code::unavailable, "out of shared memory: {} bytes requested for staging; {}", bytes,
                arena_status().text);
  }
}

/// Makes `memory` at least `bytes` bytes large, in whole pages. The contents are lost.
void NodeGroup::grow(NodeMemory& memory, std::size_t bytes, const char* use) {
  if (memory.data() == nullptr || memory.size() < bytes) {
    bytes = std::max(bytes, page_bytes());
    memory = NodeMemory();
    memory = allocate(std::bit_ceil(bytes));
    if (memory.data() == nullptr) memory = allocate(bytes);
  }
  if (memory.data() == nullptr) {
    throw_error(Code::unavailable, "out of shared memory: {} bytes requested for {}; {}", bytes, use,
                arena_status().text);
  }
}

std::byte* NodeGroup::reserve_scratch(std::size_t slot, std::size_t bytes) {
  grow(scratch_[slot], bytes, "partial results");
  return scratch_[slot].data();
}

NodeGroup::Payload NodeGroup::reserve_payload(std::size_t slot, std::size_t bytes) {
  NodeMemory& memory = payload_memory_[slot];
  if (payloads_[slot].data == nullptr || memory.size() < bytes) {
    payloads_[slot] = {};
    grow(memory, bytes, "small data");
    payloads_[slot] = {memory.data(), address_of(memory.data(), memory.size())};
  }
  return payloads_[slot];
}

std::byte* NodeGroup::keep(std::size_t bytes) {
  kept_.reserve(kept_.size() + 1);
  const std::size_t with_alignment = bytes + control_block_alignment;
  NodeMemory memory = allocate(std::max(with_alignment, page_bytes()));
  if (memory.data() == nullptr) return nullptr;
  void* data = memory.data();
  std::size_t size = with_alignment;
  kept_.push_back(std::move(memory));
  return static_cast<std::byte*>(std::align(control_block_alignment, bytes, data, size));
}

MemoryOfGroup NodeGroup::take_memory() noexcept {
  MemoryOfGroup all;
  all.staging[0] = std::move(staging_.inputs);
  all.staging[1] = std::move(staging_.results);
  std::move(payload_memory_.begin(), payload_memory_.end(),
            std::move(scratch_.begin(), scratch_.end(), all.staging.begin() + 2));
  all.kept = std::move(kept_);
  return all;
}

}  // namespace lockstep::detail
