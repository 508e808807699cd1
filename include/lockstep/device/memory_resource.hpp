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

  /// Allocates a block of at least `bytes` bytes with unspecified contents. Never null: for 0 bytes, returns a valid
  /// pointer, which must be freed too. Local. Throws std::bad_alloc. The caller owns the block until the caller passes
  /// it to `deallocate` of the same resource.
  [[nodiscard]] void* allocate(std::size_t bytes) { return do_allocate(bytes); }
  /// Frees a block from `allocate(bytes)`. Local. Never throws. If an asynchronous operation of this process still uses
  /// the block, logs a warning and waits for the operation until the communicator's deadline. If the operation is not
  /// complete at the deadline, the block is leaked.
  void deallocate(void* block, std::size_t bytes) noexcept;

 protected:
  [[nodiscard]] virtual void* do_allocate(std::size_t bytes) = 0;
  virtual void do_deallocate(void* block, std::size_t bytes) noexcept = 0;
};

/// The resource of the heap; all callers share one object. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> heap_memory_resource();

/// The resource of tensors in host memory that are created without a resource: the heap, until another resource is
/// installed. The first communicator over several processes of one node installs the arena, unless the program has
/// called set_default_memory_resource before. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> default_memory_resource();
/// Installs `resource` as the default; null installs the heap. Existing tensors keep their resource. Local.
/// Thread-safe.
LOCKSTEP_API void set_default_memory_resource(std::shared_ptr<MemoryResource> resource);

}  // namespace lockstep
