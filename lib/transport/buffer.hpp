// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that messages are staged in.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace lockstep::detail {

/// A block of bytes, contents unspecified, aligned to 64; larger ones lie on huge pages where the system allows it,
/// since a neighbour who reads them through the kernel pays by the page. Move-only.
class Buffer {
 public:
  Buffer() = default;
  /// Throws std::bad_alloc.
  explicit Buffer(std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return block_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return block_ ? size_ : 0; }
  [[nodiscard]] std::span<std::byte> first(std::size_t bytes) const noexcept { return {data(), bytes}; }
  /// Gives the memory up for ever: somebody may touch it until the process ends. Leak checkers find it reachable.
  void leak() noexcept;

 private:
  struct Free {
    void operator()(std::byte* block) const noexcept;
  };
  std::unique_ptr<std::byte, Free> block_;
  std::size_t size_ = 0;
};

}  // namespace lockstep::detail
