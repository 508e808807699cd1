// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of a fake GPU: the bodies of the real ones, on the stream's thread.

#pragma once

#include "device/cuda/kernels.hpp"
#include "support/fake_cuda.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace lockstep::test {

/// A call reads its arguments, except memory of the device, before it returns. Calls have the table's names in
/// `FakeCuda::calls`.
class FakeKernels final : public detail::cuda::Kernels {
 public:
  using Status = detail::cuda::Status;
  using Stream = detail::cuda::Stream;

  explicit FakeKernels(std::shared_ptr<FakeCuda> cuda) : cuda_(std::move(cuda)) {}

  Status load_all() override;
  Status reduce(const detail::Fold& fold, std::int64_t count, Stream stream) override;
  Status copy(std::span<const detail::cuda::CopyRegion> pieces, Stream stream) override;
  Status fill(void* target, const void* element, std::size_t element_bytes, std::int64_t count, Stream stream) override;
  Status compute_elementwise(const detail::Elementwise& what, Stream stream) override;
  Status apply_sparse_update(const detail::SparseUpdate& update, void* carried, Stream stream) override;
  Status sgd_step(std::span<float> parameter, std::span<const float> gradient, float rate, Stream stream) override;
  Status momentum_step(std::span<float> parameter, std::span<float> movement, std::span<const float> gradient,
                       float rate, float momentum, Stream stream) override;
  Status adam_step(std::span<float> parameter, std::span<float> mean, std::span<float> square,
                   std::span<const float> gradient, const detail::AdamFactors& factors, Stream stream) override;
  Status adam_moments(std::span<float> mean, std::span<float> square, std::span<const float> gradient, float beta_1,
                      float beta_2, Stream stream) override;
  Status lamb_direction(std::span<float> out, std::span<const float> parameter, std::span<const float> mean,
                        std::span<const float> square, const detail::LambFactors& factors, Stream stream) override;

 private:
  /// `body(span...)` on the stream, with the spans at the addresses of the bytes.
  template <class Body, class... Spans>
  Status launch_on_spans(std::string_view name, Stream stream, Body body, Spans... spans);

  std::shared_ptr<FakeCuda> cuda_;
};

}  // namespace lockstep::test
