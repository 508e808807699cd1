// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arena: memory of this process that the other ranks of the node can access. Collectives read and write tensors in
// the arena in place. Tensors in other memory are copied through shared memory.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <string>

namespace lockstep {

/// The arena of this process. The first call creates the arena, which exists until the process ends. If no arena can be
/// created (memory files are forbidden, or there is no address space), or if the arena is full, blocks come from the
/// heap. Collectives on blocks of the heap need one more copy. If there is no arena, `arena_status` gives the reason.
/// Blocks of freed tensors stay in the arena and are reused.
/// If a collective fails, and a stopped process may write to the outputs of the collective when the process continues,
/// the pages of these outputs become private memory of this process. Addresses and contents do not change, and later
/// collectives copy these outputs through shared memory. If the program has registered the pages with another library,
/// such as CUDA, the program must register the pages again.
/// After fork(), the child process gets new blocks from the heap. Writes of the child to inherited blocks are not
/// visible to other processes. In pages that the child has not written, the child may see later writes of the parent.
/// Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> arena_memory_resource();

/// The state of the arena, for reports.
struct ArenaStatus {
  bool is_available = false;
  std::size_t reserved_bytes = 0;   ///< size of the reserved address space
  std::size_t populated_bytes = 0;  ///< memory that was allocated at least once
  std::size_t used_bytes = 0;       ///< memory that is allocated now
  std::string text;                 ///< "memfd, 62 GiB reserved", or the reason why there is no arena
};
/// The current state of the arena. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API ArenaStatus arena_status();

/// Whether all of [data, data + bytes) is in the arena. Local. Thread-safe. Costs two comparisons.
[[nodiscard]] LOCKSTEP_API bool is_in_arena(const void* data, std::size_t bytes) noexcept;

/// An allocator for containers: `std::vector<float, ArenaAllocator<float>>`. Local. Thread-safe.
template <class T>
class ArenaAllocator {
 public:
  using value_type = T;
  static_assert(alignof(T) <= MemoryResource::alignment, "the arena aligns to 64 bytes");

  ArenaAllocator() : resource_(arena_memory_resource()) {}
  template <class U>
  ArenaAllocator(const ArenaAllocator<U>& other) noexcept : resource_(other.resource()) {}  // NOLINT: containers rebind

  /// Throws std::bad_alloc.
  [[nodiscard]] T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(resource_->allocate(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept { resource_->deallocate(block, count * sizeof(T)); }

  [[nodiscard]] const std::shared_ptr<MemoryResource>& resource() const noexcept { return resource_; }
  template <class U>
  friend bool operator==(const ArenaAllocator&, const ArenaAllocator<U>&) noexcept {
    return true;  // there is one arena
  }

 private:
  std::shared_ptr<MemoryResource> resource_;
};

}  // namespace lockstep
