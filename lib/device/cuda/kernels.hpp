// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The interface to the GPU kernels, which tests can replace like the interface to CUDA. All functions except load_all
// start work on `stream`, on the calling thread's current device, and return without waiting. Arrays are in device
// memory. The results are bitwise equal to the results of the host's kernels.

#pragma once

#include "bindings/cuda/cuda.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/optimizer_step.hpp"
#include "kernels/reduce.hpp"
#include "kernels/sparse_update.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail::cuda {

/// A contiguous region of a copy.
struct CopyRegion {
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t bytes = 0;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  /// Loads the code of all kernels on the current device, so that no later launch loads code, which may wait for
  /// running kernels, and therefore for other ranks. Thread-safe. Later calls for the same device do nothing, at little
  /// cost.
  [[nodiscard]] virtual Status load_all() = 0;

  /// The maximum numbers of inputs and outputs of one launch. For more, the caller makes several launches.
  static constexpr int most_inputs = 64;
  static constexpr int most_outputs = 64;

  /// Does the same as `reduce` of kernels/reduce.hpp, for at most `most_inputs` inputs and `most_outputs` outputs. An
  /// output may be any of the inputs if their elements have the same size. Ignores `fold.stream`.
  [[nodiscard]] virtual Status reduce(const Fold& fold, std::int64_t count, Stream stream) = 0;

  /// Copies the regions, which must not overlap. Used for packing and unpacking: one launch copies many regions.
  [[nodiscard]] virtual Status copy(std::span<const CopyRegion> regions, Stream stream) = 0;

  /// Copies the element at `element`, in host memory, to each of `count` elements of `target`. An element has
  /// `element_bytes` (1, 2, 4 or 8) bytes.
  [[nodiscard]] virtual Status fill(void* target, const void* element, std::size_t element_bytes, std::int64_t count,
                                    Stream stream) = 0;

  /// Does the same as `compute_elementwise` of kernels/elementwise.hpp.
  [[nodiscard]] virtual Status compute_elementwise(const Elementwise& what, Stream stream) = 0;

  /// The maximum number of RowSteps (see kernels/sparse_update.hpp) of one launch.
  static constexpr int most_row_steps = 232;

  /// Does the same as `apply_sparse_update` of kernels/sparse_update.hpp, except that `update.op` must not be
  /// ElementOp::update, which is a plain copy. If the update needs several launches, `carried` contains the
  /// accumulators of a row between two launches.
  [[nodiscard]] virtual Status apply_sparse_update(const SparseUpdate& update, void* carried, Stream stream) = 0;

  // The functions of kernels/optimizer_step.hpp, on the device.
  [[nodiscard]] virtual Status sgd_step(std::span<float> parameter, std::span<const float> gradient, float rate,
                                        Stream stream) = 0;
  [[nodiscard]] virtual Status momentum_step(std::span<float> parameter, std::span<float> movement,
                                             std::span<const float> gradient, float rate, float momentum,
                                             Stream stream) = 0;
  [[nodiscard]] virtual Status adam_step(std::span<float> parameter, std::span<float> mean, std::span<float> square,
                                         std::span<const float> gradient, const AdamFactors& factors,
                                         Stream stream) = 0;
  [[nodiscard]] virtual Status adam_moments(std::span<float> mean, std::span<float> square,
                                            std::span<const float> gradient, float beta_1, float beta_2,
                                            Stream stream) = 0;
  [[nodiscard]] virtual Status lamb_direction(std::span<float> out, std::span<const float> parameter,
                                              std::span<const float> mean, std::span<const float> square,
                                              const LambFactors& factors, Stream stream) = 0;
};

/// The kernels of this build; null in a build without CUDA. Returns the same object each time. Thread-safe.
[[nodiscard]] std::shared_ptr<Kernels> real_kernels();

}  // namespace lockstep::detail::cuda
