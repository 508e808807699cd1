// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory for intermediate results that is kept between calls, so that a training step allocates nothing.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace train {

/// An array that only grows, aligned to 64 bytes. Move-only. Not thread-safe.
template <class T>
class Scratch {
 public:
  /// At least `count` elements of unspecified values, valid until the next call with a larger count.
  [[nodiscard]] T* at_least(std::int64_t count) {
    if (count > capacity_) {
      block_.reset();
      capacity_ = 0;
      block_.reset(static_cast<T*>(::operator new(static_cast<std::size_t>(count) * sizeof(T), alignment)));
      capacity_ = count;
    }
    return block_.get();
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Delete {
    void operator()(T* block) const { ::operator delete(block, alignment); }
  };
  std::unique_ptr<T, Delete> block_;
  std::int64_t capacity_ = 0;
};

}  // namespace train
