// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/kernels.hpp"

#include "device/cuda/launch.cuh"

#include <memory>

namespace lockstep::detail::cuda {
namespace {

/// The number of thread blocks that a multiprocessor must have room for. Without it, the compiler uses so many
/// registers for five sizes of words that only two blocks fit.
constexpr int copy_blocks = 4;

__global__ void __launch_bounds__(threads_per_block, copy_blocks)
    copy_kernel(const __grid_constant__ CopyArguments arguments) {
  copy<DeviceMemory>(arguments, this_worker());
}

__global__ void __launch_bounds__(threads_per_block) fill_kernel(const __grid_constant__ FillArguments arguments) {
  fill<DeviceMemory>(arguments, this_worker());
}

template <class Step>
__global__ void __launch_bounds__(threads_per_block)
    optimizer_step_kernel(const __grid_constant__ OptimizerStepArguments<Step> arguments) {
  optimizer_step<Step, DeviceMemory>(arguments, this_worker());
}

template <class Step>
Status launch_step(const Step& step, const std::span<float> (&outputs)[Step::written],
                   const std::span<const float> (&inputs)[Step::read], Stream stream) {
  const OptimizerStepArguments<Step> arguments = optimizer_step_arguments(step, outputs, inputs);
  return launch<optimizer_step_kernel<Step>>(arguments, tiles(arguments.split, optimizer_step_lanes, 1).count(),
                                             stream);
}

class RealKernels final : public Kernels {
 public:
  Status load_all() override {
    for (const KernelEntry* entry = KernelEntry::first(); entry != nullptr; entry = entry->next()) {
      cudaFuncAttributes attributes;
      const cudaError_t error = cudaFuncGetAttributes(&attributes, entry->kernel());
      if (error != cudaSuccess) return static_cast<Status>(error);
    }
    return Status::success;
  }

  Status reduce(const Fold& fold, std::int64_t count, Stream stream) override {
    switch (fold.op) {
      case ReduceOp::sum: return launch_sum(fold, count, stream);
      case ReduceOp::mean:
        return is_integer(fold.dtype) ? launch_integer_mean(fold, count, stream) : launch_sum(fold, count, stream);
      case ReduceOp::min: return launch_minimum(fold, count, stream);
      case ReduceOp::max: return launch_maximum(fold, count, stream);
      case ReduceOp::prod: return launch_product(fold, count, stream);
      case ReduceOp::band:
      case ReduceOp::bor:
      case ReduceOp::bxor: return launch_bits(fold, count, stream);
    }
    return Status::invalid_value;
  }

  Status copy(std::span<const CopyRegion> regions, Stream stream) override {
    while (!regions.empty()) {
      const CopyArguments arguments = copy_arguments(regions);
      const Status status = launch<copy_kernel>(arguments, arguments.first_chunk[arguments.region_count], stream);
      if (status != Status::success) return status;
    }
    return Status::success;
  }

  Status fill(void* target, const void* element, std::size_t element_bytes, std::int64_t count,
              Stream stream) override {
    const FillArguments arguments = fill_arguments(target, element, element_bytes, count);
    return launch<fill_kernel>(arguments, tiles(arguments), stream);
  }

  Status compute_elementwise(const Elementwise& what, Stream stream) override {
    return launch_elementwise(what, stream);
  }

  Status apply_sparse_update(const SparseUpdate& update, void* carried, Stream stream) override {
    return launch_sparse_update(update, carried, stream);
  }

  Status sgd_step(std::span<float> parameter, std::span<const float> gradient, float rate, Stream stream) override {
    return launch_step(SgdStep{rate}, {parameter}, {gradient}, stream);
  }
  Status momentum_step(std::span<float> parameter, std::span<float> movement, std::span<const float> gradient,
                       float rate, float momentum, Stream stream) override {
    return launch_step(MomentumStep{rate, momentum}, {parameter, movement}, {gradient}, stream);
  }
  Status adam_step(std::span<float> parameter, std::span<float> mean, std::span<float> square,
                   std::span<const float> gradient, const AdamFactors& factors, Stream stream) override {
    return launch_step(AdamStep{factors}, {parameter, mean, square}, {gradient}, stream);
  }
  Status adam_moments(std::span<float> mean, std::span<float> square, std::span<const float> gradient, float beta_1,
                      float beta_2, Stream stream) override {
    return launch_step(AdamMoments{beta_1, beta_2}, {mean, square}, {gradient}, stream);
  }
  Status lamb_direction(std::span<float> out, std::span<const float> parameter, std::span<const float> mean,
                        std::span<const float> square, const LambFactors& factors, Stream stream) override {
    return launch_step(LambDirection{factors}, {out}, {parameter, mean, square}, stream);
  }
};

}  // namespace

std::shared_ptr<Kernels> real_kernels() {
  static const auto kernels = std::make_shared<RealKernels>();
  return kernels;
}

}  // namespace lockstep::detail::cuda
