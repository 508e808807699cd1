// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/memory.hpp"

#include <lockstep/device/arena.hpp>
#include <lockstep/device/gpu.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace perf {
namespace {

/// The heap of the C library, as in most programs.
class Malloc final : public lockstep::MemoryResource {
  void* do_allocate(std::size_t bytes) override {
    const std::size_t whole_lines = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    void* const block = std::aligned_alloc(alignment, whole_lines);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
  void do_deallocate(void* block, std::size_t /*bytes*/) noexcept override { std::free(block); }
};

/// The same, aligned to huge pages, which the system may refuse.
class Huge final : public lockstep::MemoryResource {
  void* do_allocate(std::size_t bytes) override {
    constexpr std::size_t page_bytes = std::size_t{2} << 20;
    const std::size_t whole_pages = (std::max<std::size_t>(bytes, 1) + page_bytes - 1) / page_bytes * page_bytes;
    void* const block = std::aligned_alloc(page_bytes, whole_pages);
    if (block == nullptr) throw std::bad_alloc();
    madvise(block, whole_pages, MADV_HUGEPAGE);
    return block;
  }
  void do_deallocate(void* block, std::size_t /*bytes*/) noexcept override { std::free(block); }
};

template <class Resource>
std::shared_ptr<lockstep::MemoryResource> make(lockstep::Device /*device*/) {
  return std::make_shared<Resource>();
}

std::shared_ptr<lockstep::MemoryResource> make_arena(lockstep::Device /*device*/) {
  return lockstep::arena_memory_resource();
}

constexpr std::array<MemoryKind, 4> kinds{{
    {"arena", "malloc", false, [] { return "the arena: " + lockstep::arena_status().text; }, make_arena},
    {"malloc", "malloc", false, [] { return std::string("malloc"); }, make<Malloc>},
    {"huge", "huge", false, [] { return std::string("malloc, on huge pages (madvise)"); }, make<Huge>},
    {"cuda", "malloc", true, [] { return std::string("the GPUs' own memory"); }, lockstep::gpu_memory_resource},
}};

}  // namespace

std::span<const MemoryKind> memory_kinds() noexcept { return kinds; }

const MemoryKind& memory_kind(std::string_view name) {
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const MemoryKind& kind) { return kind.name == name; });
  if (found == kinds.end()) throw std::logic_error("memory_kind: unknown name");
  return *found;
}

Memory host_memory(std::string_view name, int replicas) {
  return {memory_kind(name), std::vector<lockstep::Device>(static_cast<std::size_t>(replicas))};
}

}  // namespace perf
