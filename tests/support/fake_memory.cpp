// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <stdexcept>

namespace lockstep::test {

using detail::cuda::MemoryKind;

namespace {

constexpr std::size_t block_alignment = 512;
constexpr std::size_t page = 4096;
constexpr auto timeout = std::chrono::seconds(5);  // for blocks whose release is pending

constexpr std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::byte* map(std::size_t bytes, int protection) {
  void* const address = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw std::runtime_error("mmap of a fake GPU's memory");
  return static_cast<std::byte*>(address);
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

FakeMemory::FakeMemory(int devices, std::size_t bytes_per_device, HostAccess access)
    : limit_(bytes_per_device), range_(rounded(std::max(4 * bytes_per_device, page), page)), access_(access) {
  for (int device = 0; device < devices; ++device) {
    Slab& slab = slabs_.emplace_back();
    slab.begin = map(range_, access == HostAccess::allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
    slab.bytes = access == HostAccess::allowed ? slab.begin : map(range_, PROT_READ | PROT_WRITE);
    slab.free.emplace(number(slab.begin), range_);
  }
}

FakeMemory::~FakeMemory() {
  for (const auto& [address, block] : blocks_) {
    if (block.device < 0) std::free(bytes_of(block, address));
  }
  for (const Slab& slab : slabs_) {
    munmap(slab.begin, range_);
    if (slab.bytes != slab.begin) munmap(slab.bytes, range_);
  }
}

void* FakeMemory::allocate(int device, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  const Slab& slab = slabs_[static_cast<std::size_t>(device)];
  const auto end = std::chrono::steady_clock::now() + timeout;
  std::byte* block = take(device, bytes);
  while (block == nullptr && slab.leaving > 0) {
    if (freed_.wait_until(lock, end) == std::cv_status::timeout) break;
    block = take(device, bytes);
  }
  if (block != nullptr) std::memset(bytes_of(blocks_.at(number(block)), number(block)), unset, bytes);
  return block;
}

std::byte* FakeMemory::take(int device, std::size_t bytes) {
  Slab& slab = slabs_[static_cast<std::size_t>(device)];
  const std::size_t taken = rounded(bytes, block_alignment);
  if (taken > limit_ - slab.used) return nullptr;
  const auto fit = std::ranges::find_if(slab.free, [&](const auto& hole) { return hole.second >= taken; });
  if (fit == slab.free.end()) return nullptr;
  const auto [begin, size] = *fit;
  slab.free.erase(fit);
  if (size > taken) slab.free.emplace(begin + taken, size - taken);
  slab.used += taken;
  blocks_.emplace(begin, Block{.bytes = bytes, .device = device, .has_arrived = false});
  return slab.begin + (begin - number(slab.begin));
}

void FakeMemory::arrive(void* block) {
  const std::scoped_lock lock(mutex_);
  blocks_.at(number(block)).has_arrived = true;
}

bool FakeMemory::begin_free(void* block) {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(number(block));
  if (found == blocks_.end() || found->second.device < 0 || found->second.is_leaving) return false;
  found->second.is_leaving = true;
  ++slabs_[static_cast<std::size_t>(found->second.device)].leaving;
  return true;
}

void FakeMemory::end_free(void* block) {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(number(block));
  const auto [bytes, device, has_arrived, is_leaving] = found->second;
  std::memset(bytes_of(found->second, found->first), unset, bytes);
  blocks_.erase(found);
  Slab& slab = slabs_[static_cast<std::size_t>(device)];
  --slab.leaving;
  give_back(slab, number(block), rounded(bytes, block_alignment));
  freed_.notify_all();
}

void FakeMemory::give_back(Slab& slab, Address begin, std::size_t bytes) {
  slab.used -= bytes;
  const auto after = slab.free.lower_bound(begin);
  if (after != slab.free.end() && after->first == begin + bytes) {
    bytes += after->second;
    slab.free.erase(after);
  }
  const auto next = slab.free.lower_bound(begin);
  if (next != slab.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += bytes;
      return;
    }
  }
  slab.free.emplace(begin, bytes);
}

void* FakeMemory::allocate_host(std::size_t bytes) {
  void* const block = std::aligned_alloc(page, rounded(std::max<std::size_t>(bytes, 1), page));
  if (block == nullptr) return nullptr;
  std::memset(block, unset, bytes);
  const std::scoped_lock lock(mutex_);
  blocks_.emplace(number(block), Block{.bytes = bytes, .device = -1});
  return block;
}

bool FakeMemory::is_host_block(const void* block) const {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(number(block));
  return found != blocks_.end() && found->second.device < 0;
}

void FakeMemory::free_host(void* block) {
  const std::scoped_lock lock(mutex_);
  if (blocks_.erase(number(block)) == 1) std::free(block);
}

std::optional<FakeMemory::Place> FakeMemory::find(const void* address, std::size_t bytes) const {
  const std::scoped_lock lock(mutex_);
  if (const Block* const block = block_at(number(address), bytes)) {
    return Place{block->device < 0 ? MemoryKind::host : MemoryKind::device, block->device};
  }
  if (block_at(number(address), 1) != nullptr || slab_of(number(address))) return std::nullopt;
  return Place{};
}

std::byte* FakeMemory::reach(const void* address, std::size_t bytes, std::optional<int> device) const {
  const std::scoped_lock lock(mutex_);
  const Block* const block = block_at(number(address), bytes);
  if (block == nullptr || !block->has_arrived) return nullptr;
  if (device && block->device >= 0 && block->device != *device) return nullptr;
  return bytes_of(*block, number(address));
}

std::size_t FakeMemory::used_bytes(int device) const {
  const std::scoped_lock lock(mutex_);
  return slabs_[static_cast<std::size_t>(device)].used;
}

std::size_t FakeMemory::host_blocks() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(blocks_, [](const auto& entry) { return entry.second.device < 0; }));
}

std::optional<int> FakeMemory::slab_of(Address address) const {
  for (std::size_t device = 0; device < slabs_.size(); ++device) {
    if (address - number(slabs_[device].begin) < range_) return static_cast<int>(device);
  }
  return std::nullopt;
}

const FakeMemory::Block* FakeMemory::block_at(Address address, std::size_t bytes) const {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const auto& [begin, block] = *std::prev(after);
  const std::size_t offset = address - begin;
  return offset <= block.bytes && bytes <= block.bytes - offset ? &block : nullptr;
}

std::byte* FakeMemory::bytes_of(const Block& block, Address address) const {
  if (block.device < 0) return reinterpret_cast<std::byte*>(address);
  const Slab& slab = slabs_[static_cast<std::size_t>(block.device)];
  return slab.bytes + (address - number(slab.begin));
}

}  // namespace lockstep::test
