// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/node_group.hpp"

#include "base/check.hpp"

#include <lockstep/device/arena.hpp>

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

void NodeGroup::reserve(NodeMemory& memory, std::size_t bytes) {
  if (memory.size() >= bytes) return;
  NodeMemory larger = allocate(bytes);
  if (larger.data() == nullptr) {
    throw_error(Code::unavailable, "out of shared memory: {} bytes requested for staging; {}", bytes,
                arena_status().text);
  }
  if (memory.data() != nullptr) retire(std::move(memory));
  memory = std::move(larger);
}

}  // namespace lockstep::detail
