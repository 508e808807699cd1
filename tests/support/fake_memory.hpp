// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of GPUs that are not there: which addresses are whose, and where the bytes are.

#pragma once

#include "bindings/cuda/cuda.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace lockstep::test {

/// Whether the host may touch the addresses of device memory.
enum class HostAccess : std::uint8_t {
  forbidden,  ///< a touch is a fault, as with a GPU: the bytes are at other addresses, which only the fakes know
  allowed,    ///< it is plain memory: for tests whose own code computes there
};

/// New blocks, and freed ones, are full of `unset`. Thread-safe.
class FakeMemory {
 public:
  static constexpr int unset = 0xdb;

  FakeMemory(int devices, std::size_t bytes_per_device, HostAccess access);
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;
  ~FakeMemory();

  /// A block of device memory that is there from `arrive` on; null when there is no room. Waits for blocks that are on
  /// their way back, for a bounded time.
  [[nodiscard]] void* allocate(int device, std::size_t bytes);
  void arrive(void* block);
  /// Whether `block` is one that can be freed. What has begun must end: until then it stays what it is.
  [[nodiscard]] bool begin_free(void* block);
  void end_free(void* block);

  [[nodiscard]] void* allocate_host(std::size_t bytes);
  [[nodiscard]] bool is_host_block(const void* block) const;
  void free_host(void* block);

  struct Place {
    detail::cuda::MemoryKind kind = detail::cuda::MemoryKind::unregistered;
    int device = -1;
  };
  /// What [address, address + bytes) is; none where it is the host's plain memory in no part, but in no block as a
  /// whole.
  [[nodiscard]] std::optional<Place> find(const void* address, std::size_t bytes) const;
  /// The bytes of a registered place, or null. None of `device` where it has not arrived, or is another's.
  [[nodiscard]] std::byte* reach(const void* address, std::size_t bytes, std::optional<int> device) const;

  [[nodiscard]] std::size_t used_bytes(int device) const;
  [[nodiscard]] std::size_t host_blocks() const;

 private:
  using Address = std::uintptr_t;
  struct Block {
    std::size_t bytes;
    int device;  // -1: of the host
    bool has_arrived = true;
    bool is_leaving = false;
  };
  // Addresses are given out first fit, from a range larger than the memory: pages have no holes between them.
  struct Slab {
    std::byte* begin = nullptr;
    std::byte* bytes = nullptr;  // the same where the host may touch it
    std::size_t used = 0;
    int leaving = 0;
    std::map<Address, std::size_t> free;
  };

  [[nodiscard]] std::byte* take(int device, std::size_t bytes);
  void give_back(Slab& slab, Address begin, std::size_t bytes);
  [[nodiscard]] std::optional<int> slab_of(Address address) const;
  [[nodiscard]] const Block* block_at(Address address, std::size_t bytes) const;
  [[nodiscard]] std::byte* bytes_of(const Block& block, Address address) const;

  const std::size_t limit_;
  const std::size_t range_;
  const HostAccess access_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<Slab> slabs_;          // guarded by mutex_
  std::map<Address, Block> blocks_;  // guarded by mutex_
};

}  // namespace lockstep::test
