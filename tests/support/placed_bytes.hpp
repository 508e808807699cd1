// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The elements of a test, in host memory or on a GPU.

#pragma once

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include "support/canonical_sum.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace lockstep::test {

/// The device of a local replica's tensors.
using DeviceOf = std::function<Device(int replica)>;
inline Device on_host(int /*replica*/) { return {}; }

[[nodiscard]] inline ConstTensorView bytes_view(const void* data, std::size_t bytes, Device device) {
  return {data, DType::u8, Shape{static_cast<std::int64_t>(bytes)}, device};
}
[[nodiscard]] inline ConstTensorView bytes_view(const Bytes& bytes) {
  return bytes_view(bytes.data(), bytes.size(), Device{});
}

/// The elements of `view`, copied to the host.
[[nodiscard]] inline Bytes read(const ConstTensorView& view) {
  Bytes bytes(view.byte_count());
  const TensorView target{bytes.data(), DType::u8, Shape{static_cast<std::int64_t>(bytes.size())}, Device{}};
  if (!bytes.empty()) copy(target, bytes_view(view.data, view.byte_count(), view.device));
  return bytes;
}

/// A number of bytes at a given distance from an aligned address, surrounded by guard bytes that must stay unchanged.
/// The address does not change when the object is moved.
class PlacedBytes {
 public:
  PlacedBytes(const Bytes& values, Device device, std::size_t distance_bytes = 0)
      : begin_(room + distance_bytes),
        size_(values.size()),
        tensor_(Tensor::uninitialized(
            DType::u8, Shape{static_cast<std::int64_t>(begin_ + size_ + room)},
            device.kind == DeviceKind::gpu ? gpu_memory_resource(device) : heap_memory_resource(), device)) {
    Bytes all(tensor_.byte_count(), untouched);
    std::copy(values.begin(), values.end(), all.begin() + static_cast<std::ptrdiff_t>(begin_));
    copy(tensor_.view(), bytes_view(all));
  }
  PlacedBytes(PlacedBytes&&) noexcept = default;
  PlacedBytes& operator=(PlacedBytes&&) = delete;
  ~PlacedBytes() = default;

  [[nodiscard]] std::byte* data() { return static_cast<std::byte*>(tensor_.data()) + begin_; }
  [[nodiscard]] Device device() const { return tensor_.device(); }
  /// A view of all elements, of rank 1.
  [[nodiscard]] TensorView view(DType dtype) {
    return {data(), dtype, Shape{static_cast<std::int64_t>(size_ / size_of(dtype))}, device()};
  }
  void write(const Bytes& values) {
    if (size_ != 0) copy(view(DType::u8), bytes_view(values));
  }
  [[nodiscard]] Bytes bytes() const {
    const Bytes all = read(tensor_.view());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begin_);
    return {begin, begin + static_cast<std::ptrdiff_t>(size_)};
  }
  [[nodiscard]] bool room_is_untouched() const {
    const Bytes all = read(tensor_.view());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begin_);
    const auto is_untouched = [](std::byte byte) { return byte == untouched; };
    return std::all_of(all.begin(), begin, is_untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(size_), all.end(), is_untouched);
  }

 private:
  static constexpr std::size_t room = 64;
  static constexpr std::byte untouched{0x5a};

  std::size_t begin_;
  std::size_t size_;
  Tensor tensor_;
};

}  // namespace lockstep::test
