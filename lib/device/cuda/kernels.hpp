// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of GPUs, behind a table like CUDA's own calls. All of them are asynchronous on their stream, on the
// calling thread's current device; their pointers are device memory. The results have the bits of the host's kernels.

#pragma once

#include "bindings/cuda/cuda.hpp"
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

  /// The maximum numbers of inputs and outputs of one launch. The caller folds more in several launches.
  static constexpr int most_inputs = 64;
  static constexpr int most_outputs = 64;

  /// The `reduce` of kernels/reduce.hpp, on the device: at most `most_inputs` inputs and `most_outputs` outputs; an
  /// output may be any input whose elements have the same size. `fold.stream` is ignored.
  [[nodiscard]] virtual Status reduce(const Fold& fold, std::int64_t count, Stream stream) = 0;

  /// Copies the regions, which must not overlap, in as few launches as their descriptors need: for packing and
  /// unpacking.
  [[nodiscard]] virtual Status copy(std::span<const CopyRegion> regions, Stream stream) = 0;

  /// Writes the `element_bytes` (1, 2, 4 or 8) bytes at `element` to each of `count` elements of `target`.
  [[nodiscard]] virtual Status fill(void* target, const void* element, std::size_t element_bytes, std::int64_t count,
                                    Stream stream) = 0;

  /// The maximum number of row steps of one launch.
  static constexpr int most_row_steps = 232;

  /// The `apply_sparse_update` of kernels/sparse_update.hpp, on the device, except for `update`, which is a copy. If
  /// there are more steps than one launch can do, `carried` holds the accumulators of a row between two launches.
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

/// The kernels of this build; null in a build without CUDA. Returns the same table each time. Thread-safe.
[[nodiscard]] std::shared_ptr<Kernels> real_kernels();

}  // namespace lockstep::detail::cuda
