// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of lockstep-train on fake GPUs: the bodies of the real ones, on the stream's thread.

#pragma once

#include "support/fake_cuda.hpp"
#include "train/gpu/kernels.hpp"

#include <cstdint>
#include <stdexcept>

namespace train::test {

/// The host may touch the memory of the fake GPUs (HostAccess::allowed). A launch counts as "launch" in their calls.
class FakeTrainKernels final : public gpu::Kernels {
 public:
  explicit FakeTrainKernels(lockstep::test::FakeCuda& cuda) : cuda_(cuda) {}

  void use(int device) override { check(cuda_.set_device(device)); }
  void launch(const gpu::AddBiasAndRelu& body, std::int64_t count, Stream stream) override {
    submit(body, count, stream);
  }
  void launch(const gpu::ReluGradients& body, std::int64_t count, Stream stream) override {
    submit(body, count, stream);
  }
  void launch(const gpu::SoftmaxCrossEntropy& body, std::int64_t count, Stream stream) override {
    submit(body, count, stream);
  }
  void launch(const gpu::MarkCorrect& body, std::int64_t count, Stream stream) override { submit(body, count, stream); }
  void launch(const gpu::SumRows<float>& body, std::int64_t count, Stream stream) override {
    submit(body, count, stream);
  }
  void launch(const gpu::SumRows<double>& body, std::int64_t count, Stream stream) override {
    submit(body, count, stream);
  }

 private:
  using Status = lockstep::detail::cuda::Status;

  void check(Status status) const {
    if (status != Status::success) throw std::runtime_error("a fake GPU says: " + cuda_.error_name(status));
  }
  template <class Body>
  void submit(const Body& body, std::int64_t count, Stream stream) {
    check(cuda_.launch("launch", stream, [body, count] {
      for (std::int64_t i = 0; i < count; ++i) body(i);
      return Status::success;
    }));
  }

  lockstep::test::FakeCuda& cuda_;
};

}  // namespace train::test
