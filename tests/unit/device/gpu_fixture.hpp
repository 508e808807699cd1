// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "device/cuda/backend.hpp"
#include "device/cuda/wait_limit.hpp"
#include "support/fake_gpus.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {

constexpr Device gpu(int index, int logical = 0) { return {DeviceKind::gpu, index, logical}; }

/// A tensor on the host with `first`, `first` + 1, ...
inline Tensor numbers(std::size_t count, float first = 0) {
  std::vector<float> elements(count);
  std::iota(elements.begin(), elements.end(), first);
  return Tensor::from(elements);
}

/// The elements of a tensor on any device.
inline std::vector<float> elements_of(const Tensor& tensor) {
  const Tensor here = tensor.to(Device{});
  const auto elements = here.elements<float>();
  return {elements.begin(), elements.end()};
}

/// Blocks later work on a stream until it is opened, at the latest by its destructor. It opens slowly, so that work
/// that should wait for it and does not would finish before.
class Gate {
 public:
  Gate(FakeCuda& cuda, void* stream) {
    cuda.streams().submit(stream, [opened = opened_.get_future().share()] {
      opened.wait_for(std::chrono::seconds(60));
      return detail::cuda::Status::success;
    });
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  void open() {
    if (std::exchange(is_open_, true)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    opened_.set_value();
  }

 private:
  std::promise<void> opened_;
  bool is_open_ = false;
};

/// Two GPUs of 64 MiB; expects at the end of a test that all memory was freed.
class GpuTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(cuda().wait_for_all());
    for (int device = 0; device < 2; ++device) EXPECT_EQ(cuda().used_bytes(device), 0U) << "gpu:" << device;
  }
  [[nodiscard]] FakeCuda& cuda() const { return gpus_.cuda(); }
  /// Sets the limit until the end of the test.
  void set_wait_limit(std::chrono::milliseconds limit) { wait_claim_.emplace(limit); }

 private:
  std::optional<detail::cuda::WaitClaim> wait_claim_;  // outlives the work that is waited for
  FakeGpus gpus_{{.devices = 2, .memory_bytes = std::size_t{64} << 20}};
};

}  // namespace lockstep::test
