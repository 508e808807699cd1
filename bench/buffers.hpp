// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that one side of a comparison works on.

#pragma once

#include "options.hpp"

#include <lockstep/device/memory_resource.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace perf {

/// Zeroed bytes of one kind of memory. Move-only.
class Block {
 public:
  /// Throws std::bad_alloc.
  Block(const std::shared_ptr<lockstep::MemoryResource>& resource, std::int64_t size_bytes);
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_.get(), data_.get_deleter().size_bytes}; }

 private:
  struct Free {
    std::shared_ptr<lockstep::MemoryResource> resource;
    std::size_t size_bytes;
    void operator()(std::byte* data) const noexcept { resource->deallocate(data, size_bytes); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// The inputs and the outputs of calls of up to so many bytes.
class Buffers {
 public:
  Buffers(const std::shared_ptr<lockstep::MemoryResource>& resource, std::int64_t input_bytes,
          std::int64_t output_bytes)
      : input_(resource, input_bytes), output_(resource, output_bytes) {}
  [[nodiscard]] std::byte* input() const noexcept { return input_.data(); }
  /// In place: the input.
  [[nodiscard]] std::byte* output(Placement placement) const noexcept {
    return placement == Placement::in_place ? input_.data() : output_.data();
  }

 private:
  Block input_;
  Block output_;
};

/// `bytes`, up to a multiple of the cache line's.
[[nodiscard]] constexpr std::int64_t whole_lines(std::int64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// Regions of so many bytes, each beginning a cache line.
[[nodiscard]] std::vector<std::span<std::byte>> regions(std::byte* start, std::span<const std::int64_t> bytes);

/// Reads one byte of each cache line.
void touch(std::span<const std::byte> bytes) noexcept;

}  // namespace perf
