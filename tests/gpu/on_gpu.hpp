// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Bytes on a GPU, for tests that need one: a real one, or what stands for it.

#pragma once

#include "support/canonical_sum.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

namespace lockstep::test {

/// Tests of it are skipped where there is no GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << gpu_status();
  }
};

/// Replica `index` of those that share the first GPU.
inline Device logical_gpu(int index) { return {.kind = DeviceKind::gpu, .index = 0, .logical = index}; }

inline ConstTensorView row_of(const Bytes& bytes) {
  return {bytes.data(), DType::u8, Shape{static_cast<std::int64_t>(bytes.size())}};
}

/// Some bytes at some distance from an aligned address, with room around them that nobody may touch.
class OnGpu {
 public:
  OnGpu(const Bytes& bytes, Device device, std::size_t distance_bytes = 0)
      : begin_(room + distance_bytes),
        size_(bytes.size()),
        tensor_(Tensor::uninitialized(DType::u8, Shape{static_cast<std::int64_t>(begin_ + size_ + room)},
                                      gpu_memory_resource(device), device)) {
    Bytes all(tensor_.byte_count(), untouched);
    std::copy(bytes.begin(), bytes.end(), all.begin() + static_cast<std::ptrdiff_t>(begin_));
    copy(tensor_.view(), row_of(all));
  }

  [[nodiscard]] std::byte* data() { return static_cast<std::byte*>(tensor_.data()) + begin_; }
  /// All elements, in one row.
  [[nodiscard]] TensorView view(DType dtype) {
    return {data(), dtype, Shape{static_cast<std::int64_t>(size_ / size_of(dtype))}, tensor_.device()};
  }
  void assign(const Bytes& bytes) { copy(view(DType::u8), row_of(bytes)); }
  [[nodiscard]] Bytes bytes() const {
    const Bytes all = everything();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begin_);
    return {begin, begin + static_cast<std::ptrdiff_t>(size_)};
  }
  [[nodiscard]] bool room_is_untouched() const {
    const Bytes all = everything();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begin_);
    const auto is_untouched = [](std::byte byte) { return byte == untouched; };
    return std::all_of(all.begin(), begin, is_untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(size_), all.end(), is_untouched);
  }

 private:
  static constexpr std::size_t room = 64;
  static constexpr std::byte untouched{0x5a};

  [[nodiscard]] Bytes everything() const {
    Bytes all(tensor_.byte_count());
    copy({all.data(), DType::u8, tensor_.shape(), {}}, tensor_.view());
    return all;
  }

  std::size_t begin_;
  std::size_t size_;
  Tensor tensor_;
};

}  // namespace lockstep::test
