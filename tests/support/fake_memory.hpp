// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of fake GPUs: the owners of addresses, and the addresses of the bytes.

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
  forbidden,  ///< an access is a fault, as with a GPU: the bytes are at other addresses, which only the fakes know
  allowed,    ///< plain memory: for tests with code that computes on it
};

/// New and freed blocks are filled with `unset`. Thread-safe.
class FakeMemory {
 public:
  static constexpr int unset = 0xdb;

  FakeMemory(int devices, std::size_t bytes_per_device, HostAccess access);
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;
  ~FakeMemory();

  /// A block of device memory that may be used from `arrive` on; null when out of memory. Waits, for a bounded time,
  /// for blocks whose release is pending.
  [[nodiscard]] void* allocate(int device, std::size_t bytes);
  void arrive(void* block);
  /// Whether `block` can be freed. If so, the caller must end the release; until then the block is unchanged.
  [[nodiscard]] bool begin_free(void* block);
  void end_free(void* block);

  [[nodiscard]] void* allocate_host(std::size_t bytes);
  [[nodiscard]] bool is_host_block(const void* block) const;
  void free_host(void* block);

  struct Place {
    detail::cuda::MemoryKind kind = detail::cuda::MemoryKind::unregistered;
    int device = -1;
  };
  /// The kind of [address, address + bytes); none if it overlaps a block but is not inside one.
  [[nodiscard]] std::optional<Place> find(const void* address, std::size_t bytes) const;
  /// The bytes of a registered range, or null. Null also if it is not allocated yet on `device`, or another device's.
  [[nodiscard]] std::byte* reach(const void* address, std::size_t bytes, std::optional<int> device) const;

  [[nodiscard]] std::size_t used_bytes(int device) const;
  [[nodiscard]] std::size_t host_blocks() const;

 private:
  using Address = std::uintptr_t;
  struct Block {
    std::size_t bytes;
    int device;  // -1: pinned memory of the host
    bool has_arrived = true;
    bool is_leaving = false;
  };
  // Addresses are allocated first fit, from a range larger than the memory: real memory is paged and has no holes.
  struct Slab {
    std::byte* begin = nullptr;
    std::byte* bytes = nullptr;  // equal to the address if the host may touch it
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
