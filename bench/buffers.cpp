// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "buffers.hpp"

#include <cstring>

namespace perf {

Block::Block(const std::shared_ptr<lockstep::MemoryResource>& resource, std::int64_t size_bytes)
    : data_(static_cast<std::byte*>(resource->allocate(static_cast<std::size_t>(size_bytes))),
            Free{resource, static_cast<std::size_t>(size_bytes)}) {
  std::memset(data(), 0, bytes().size());  // the pages exist before anything is timed
}

std::vector<std::span<std::byte>> regions(std::byte* start, std::span<const std::int64_t> bytes) {
  std::vector<std::span<std::byte>> all;
  for (const std::int64_t size : bytes) {
    all.emplace_back(start, static_cast<std::size_t>(size));
    start += whole_lines(size);
  }
  return all;
}

void touch(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t line_bytes = 64;
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += line_bytes) sum += std::to_integer<unsigned>(bytes[i]);
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

}  // namespace perf
