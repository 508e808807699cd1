// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements of a test, in host memory or on a GPU.

#pragma once

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/gpu.hpp>

#include "support/canonical_sum.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace lockstep::test {

/// Where the tensors of a local replica lie.
using DeviceOf = std::function<Device(int replica)>;
inline Device on_host(int /*replica*/) { return {}; }

[[nodiscard]] inline ConstTensorView bytes_view(const void* data, std::size_t bytes, Device device) {
  return {data, DType::u8, Shape{static_cast<std::int64_t>(bytes)}, device};
}

/// What `view` shows, on the host.
[[nodiscard]] inline Bytes read(const ConstTensorView& view) {
  Bytes bytes(view.byte_count());
  const TensorView target{bytes.data(), DType::u8, Shape{static_cast<std::int64_t>(bytes.size())}, Device{}};
  if (!bytes.empty()) copy(target, bytes_view(view.data, view.byte_count(), view.device));
  return bytes;
}

/// A block with these bytes; it stays where it is when the object is moved.
class PlacedBytes {
 public:
  PlacedBytes(const Bytes& values, Device device) : device_(device), bytes_(values.size()) {
    const bool is_on_gpu = device.kind == DeviceKind::gpu;
    resource_ = is_on_gpu ? gpu_memory_resource(device) : heap_memory_resource();
    data_ = resource_->allocate(bytes_);
    write(values);
  }
  PlacedBytes(PlacedBytes&& other) noexcept
      : resource_(std::move(other.resource_)),
        device_(other.device_),
        bytes_(other.bytes_),
        data_(std::exchange(other.data_, nullptr)) {}
  PlacedBytes& operator=(PlacedBytes&&) = delete;
  ~PlacedBytes() {
    if (resource_) resource_->deallocate(data_, bytes_);
  }

  void write(const Bytes& values) {
    const TensorView target{data_, DType::u8, Shape{static_cast<std::int64_t>(bytes_)}, device_};
    if (bytes_ != 0) copy(target, bytes_view(values.data(), bytes_, Device{}));
  }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] Device device() const noexcept { return device_; }

 private:
  std::shared_ptr<MemoryResource> resource_;
  Device device_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace lockstep::test
