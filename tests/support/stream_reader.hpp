// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "support/canonical_sum.hpp"

#include <cstring>

namespace lockstep::test {

/// A stream created by the test, on which outputs are read.
class StreamReader {
 public:
  explicit StreamReader(Device device) : device_(device), stream_(device.index) {}

  [[nodiscard]] void* stream() const { return stream_.get(); }
  /// Enqueues a copy of `view`, which is on the GPU, on the stream.
  void read(const ConstTensorView& view) {
    copy_ = Tensor(DType::u8, Shape{static_cast<std::int64_t>(view.byte_count())}, pinned_memory_resource());
    detail::cuda::Api& api = detail::cuda::Backend::of_this_process().api();
    const detail::cuda::CurrentDevice current(device_.index);
    detail::cuda::check(api, api.memcpy_async(copy_.data(), view.data, view.byte_count(), stream_.get()), "memcpy");
  }
  [[nodiscard]] Bytes bytes() const {
    detail::cuda::wait_until([&] { return detail::cuda::is_idle(stream_.get(), device_.index); }, "a stream", device_);
    Bytes bytes(copy_.byte_count());
    std::memcpy(bytes.data(), copy_.data(), bytes.size());
    return bytes;
  }

 private:
  Device device_;
  Tensor copy_;
  detail::cuda::OwnedStream stream_;
};

}  // namespace lockstep::test
