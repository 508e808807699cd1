// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <span>

namespace lockstep::detail {

/// Page-locked memory that messages and copies of one operation use. At its end it is freed, unless one of them may
/// still touch it: then it is kept for ever.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  ~PinnedBlock();

  /// Once. Throws Error(unavailable) where there is none left.
  void allocate(std::size_t bytes);
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }
  /// Messages and copies begin, and have ended.
  void use() noexcept { is_in_use_ = true; }
  void settle() noexcept { is_in_use_ = false; }

 private:
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  bool is_in_use_ = false;
};

}  // namespace lockstep::detail
