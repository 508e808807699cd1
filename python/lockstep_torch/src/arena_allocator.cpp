// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "arena_allocator.hpp"

#include "errors.hpp"

#include <ATen/Functions.h>
#include <c10/core/CPUAllocator.h>
#include <lockstep/device/arena.hpp>

#include <atomic>
#include <memory>
#include <new>

namespace lockstep_torch {
namespace {

/// torch passes only an address to the function that frees a block, so the block begins with what that function needs.
struct alignas(64) Header {
  lockstep::MemoryResource* resource;  ///< null: ordinary memory
  std::size_t bytes;                   ///< with the header
};
static_assert(sizeof(Header) == lockstep::MemoryResource::alignment);

class ArenaAllocator final : public at::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, at::kCPU};
    const std::size_t total = bytes + sizeof(Header);
    const bool is_large = bytes >= least_bytes.load(std::memory_order_relaxed);
    void* const block = is_large ? arena_->allocate(total) : ::operator new(total, std::align_val_t(alignof(Header)));
    void* const data = ::new (block) Header{is_large ? arena_.get() : nullptr, total} + 1;
    return {data, data, &release, at::kCPU};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

  std::atomic<std::size_t> least_bytes{0};

 private:
  static void release(void* data) {
    if (data == nullptr) return;
    Header* const header = static_cast<Header*>(data) - 1;
    if (header->resource != nullptr) {
      header->resource->deallocate(header, header->bytes);
    } else {
      ::operator delete(static_cast<void*>(header), std::align_val_t(alignof(Header)));
    }
  }

  std::shared_ptr<lockstep::MemoryResource> arena_ = lockstep::arena_memory_resource();
};

ArenaAllocator& arena_allocator() {
  static auto* const value = new ArenaAllocator;  // never destroyed: torch frees tensors until the process ends
  return *value;
}

}  // namespace

at::Tensor arena_tensor(std::int64_t count, const at::TensorOptions& options) {
  if (!options.device().is_cpu())
    throw_error(c10::str("allocateTensor: device ", options.device(), " is not the host"));
  const auto bytes = static_cast<std::size_t>(count) * options.dtype().itemsize();
  const std::shared_ptr<lockstep::MemoryResource> arena = lockstep::arena_memory_resource();
  void* const data = bytes == 0 ? nullptr : arena->allocate(bytes);
  const auto free = [arena, bytes](void* block) {
    if (block != nullptr) arena->deallocate(block, bytes);
  };
  return at::from_blob(data, {count}, free, options);
}

void put_tensors_in_arena(std::size_t least_bytes) {
  arena_allocator().least_bytes = least_bytes;
  c10::SetCPUAllocator(&arena_allocator(), 1);
}

void put_tensors_in_ordinary_memory() { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1); }

bool is_in_arena(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.is_non_overlapping_and_dense() &&
         lockstep::is_in_arena(tensor.const_data_ptr(), tensor.nbytes());
}

}  // namespace lockstep_torch
