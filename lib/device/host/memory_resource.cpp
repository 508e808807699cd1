// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/leak.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "device/host/memory_resources.hpp"
#include "device/host/memory_use.hpp"

#include <algorithm>
#include <new>
#include <utility>

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

struct Default {
  detail::Mutex mutex;
  std::shared_ptr<MemoryResource> resource LOCKSTEP_GUARDED_BY(mutex) = std::make_shared<HeapMemoryResource>();
  bool is_chosen LOCKSTEP_GUARDED_BY(mutex) = false;
};
Default& the_default() {
  static detail::NeverDestroyed<Default> value;  // tensors may be created during static destruction
  return *value;
}

}  // namespace

MemoryResource::~MemoryResource() = default;

void MemoryResource::deallocate(void* block, std::size_t bytes) noexcept {
  detail::has_no_user(block, bytes) ? do_deallocate(block, bytes) : detail::leak(block);
}

std::shared_ptr<MemoryResource> heap_memory_resource() { return std::make_shared<HeapMemoryResource>(); }

std::shared_ptr<MemoryResource> default_memory_resource() {
  Default& value = the_default();
  const detail::MutexLock lock(value.mutex);
  return value.resource;
}

void set_default_memory_resource(std::shared_ptr<MemoryResource> resource) {
  if (!resource) resource = heap_memory_resource();
  Default& value = the_default();
  const detail::MutexLock lock(value.mutex);
  value.resource = std::move(resource);
  value.is_chosen = true;
}

namespace detail {

void offer_default_memory_resource(std::shared_ptr<MemoryResource> resource) {
  Default& value = the_default();
  const detail::MutexLock lock(value.mutex);
  if (!value.is_chosen) value.resource = std::move(resource);
}

}  // namespace detail

}  // namespace lockstep
