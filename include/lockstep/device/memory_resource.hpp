// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where tensors get their memory.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstddef>
#include <memory>

namespace lockstep {

/// Gives out blocks of memory, aligned to 64 bytes. Implementations are thread-safe.
class LOCKSTEP_API MemoryResource {
 public:
  static constexpr std::size_t alignment = 64;

  virtual ~MemoryResource();

  /// A block of at least `bytes` bytes, never null, contents unspecified; `bytes` 0 gives a valid pointer that must be
  /// freed too. Local. Throws std::bad_alloc. The caller owns the block until it hands it to `deallocate` of the same
  /// resource.
  [[nodiscard]] void* allocate(std::size_t bytes) { return do_allocate(bytes); }
  /// Takes back a block of `allocate(bytes)`. Local. Never throws. While an asynchronous operation of this process
  /// works with the block, waits for its end, bounded by the communicator's deadline, and logs that; a block of an
  /// operation that has not ended by then is kept for ever.
  void deallocate(void* block, std::size_t bytes) noexcept;

 protected:
  [[nodiscard]] virtual void* do_allocate(std::size_t bytes) = 0;
  virtual void do_deallocate(void* block, std::size_t bytes) noexcept = 0;
};

/// The heap. Local. Thread-safe. The resource is shared and lives as long as somebody holds it.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> heap_memory_resource();

/// Where tensors come from that name no resource: the heap, until something else is installed. The first communicator
/// over several processes of one node installs the arena, if the program has not chosen before. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> default_memory_resource();
/// Installs `resource`, null for the heap; tensors that exist keep theirs. Local. Thread-safe.
LOCKSTEP_API void set_default_memory_resource(std::shared_ptr<MemoryResource> resource);

}  // namespace lockstep
