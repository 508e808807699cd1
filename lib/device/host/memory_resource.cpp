// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/device/memory_resource.hpp>

#include <algorithm>
#include <new>

namespace lockstep {
namespace {

class HeapMemoryResource final : public MemoryResource {
  void* do_allocate(std::size_t bytes) override {
    return ::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t{alignment});
  }
  void do_deallocate(void* block, std::size_t) noexcept override {
    ::operator delete(block, std::align_val_t{alignment});
  }
};

}  // namespace

MemoryResource::~MemoryResource() = default;

std::shared_ptr<MemoryResource> heap_memory_resource() { return std::make_shared<HeapMemoryResource>(); }

}  // namespace lockstep
