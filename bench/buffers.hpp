// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that one side of a comparison works on.

#pragma once

#include "options.hpp"
#include "pattern.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace perf {

/// Zeroed bytes from malloc, as most programs have them. Move-only.
class Block {
 public:
  /// Throws std::bad_alloc.
  explicit Block(std::size_t size_bytes);
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept;
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// The input and the output of calls of up to so many bytes.
class Buffers {
 public:
  Buffers(std::int64_t input_bytes, std::int64_t output_bytes)
      : input_(static_cast<std::size_t>(input_bytes)), output_(static_cast<std::size_t>(output_bytes)) {}
  [[nodiscard]] std::byte* input() const noexcept { return input_.data(); }
  /// In place: the input.
  [[nodiscard]] std::byte* output(Placement placement) const noexcept {
    return placement == Placement::in_place ? input_.data() : output_.data();
  }

 private:
  Block input_;
  Block output_;
};

/// Reads one byte of each cache line.
void touch(std::span<const std::byte> bytes) noexcept;

}  // namespace perf
