// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "buffers.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace perf {

Block::Block(std::size_t size_bytes) : data_(static_cast<std::byte*>(std::malloc(size_bytes))) {
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, size_bytes);  // the pages exist before anything is timed
}

void Block::Free::operator()(std::byte* data) const noexcept { std::free(data); }

void touch(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t line_bytes = 64;
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += line_bytes) sum += std::to_integer<unsigned>(bytes[i]);
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

}  // namespace perf
