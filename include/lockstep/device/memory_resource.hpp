// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory resources: the sources of memory for tensors.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstddef>
#include <memory>

namespace lockstep {

/// Allocates blocks of memory, aligned to 64 bytes. Implementations are thread-safe.
class LOCKSTEP_API MemoryResource {
 public:
  static constexpr std::size_t alignment = 64;

  virtual ~MemoryResource();

  /// Allocates at least `bytes` bytes; never null, contents unspecified. 0 bytes give a valid pointer, which must be
  /// freed too. Local. Throws std::bad_alloc. The caller owns the block until it passes it to `deallocate` of the same
  /// resource.
  [[nodiscard]] void* allocate(std::size_t bytes) { return do_allocate(bytes); }
  /// Frees a block from `allocate(bytes)`. Local. Never throws. If an asynchronous operation of this process still uses
  /// the block, waits for the operation, up to the communicator's deadline, and logs a warning; if the operation has
  /// not completed by then, the block is leaked.
  void deallocate(void* block, std::size_t bytes) noexcept;

 protected:
  [[nodiscard]] virtual void* do_allocate(std::size_t bytes) = 0;
  virtual void do_deallocate(void* block, std::size_t bytes) noexcept = 0;
};

/// The heap. Local. Thread-safe. The resource is shared; it lives as long as a reference to it.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> heap_memory_resource();

/// The resource of tensors that are made without one: the heap, until another resource is installed. The first
/// communicator over several processes of one node installs the arena, unless the program has chosen before. Local.
/// Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> default_memory_resource();
/// Installs `resource` as the default; null installs the heap. Existing tensors keep their resource. Local.
/// Thread-safe.
LOCKSTEP_API void set_default_memory_resource(std::shared_ptr<MemoryResource> resource);

}  // namespace lockstep
