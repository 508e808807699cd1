// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What runs on a GPU: the kernels by what they do to each element, behind a table as CUDA's own calls are. All are
// asynchronous on their stream, on the calling thread's current device; their pointers are device memory. Results equal
// the host's kernels' by bits.

#pragma once

#include "bindings/cuda/cuda.hpp"
#include "kernels/descent.hpp"
#include "kernels/reduce.hpp"
#include "kernels/rows.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail::cuda {

/// A piece of a copy.
struct CopyPiece {
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t bytes = 0;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  /// The most inputs, and the most outputs, that one launch takes. More are folded in several launches by the caller.
  static constexpr int most_inputs = 64;
  static constexpr int most_outputs = 64;

  /// kernels/reduce's `reduce`, on the device: at most `most_inputs` inputs and `most_outputs` outputs, which may be
  /// any of the inputs whose elements have the same size. `stream` of the fold means nothing.
  [[nodiscard]] virtual Status reduce(const Fold& fold, std::int64_t count, Stream stream) = 0;

  /// Copies the pieces, which overlap nowhere, in as few launches as their descriptors need: packing and unpacking.
  [[nodiscard]] virtual Status copy(std::span<const CopyPiece> pieces, Stream stream) = 0;

  /// Writes `element_bytes` (1, 2, 4 or 8) bytes at `element` to each of `count` elements of `target`.
  [[nodiscard]] virtual Status fill(void* target, const void* element, std::size_t element_bytes, std::int64_t count,
                                    Stream stream) = 0;

  /// The steps of rows that one launch takes.
  static constexpr int most_row_steps = 232;

  /// kernels/rows's `update_rows`, on the device, but for `update`, which is a copy. Where there are more steps than
  /// one launch takes, `carried` holds a row of partial results between two, in the type that elements are added in.
  [[nodiscard]] virtual Status update_rows(const RowUpdate& update, void* carried, Stream stream) = 0;

  // kernels/descent's, on the device.
  [[nodiscard]] virtual Status descend(std::span<float> parameter, std::span<const float> gradient, float rate,
                                       Stream stream) = 0;
  [[nodiscard]] virtual Status descend_with_momentum(std::span<float> parameter, std::span<float> movement,
                                                     std::span<const float> gradient, float rate, float momentum,
                                                     Stream stream) = 0;
  [[nodiscard]] virtual Status adapt(std::span<float> parameter, std::span<float> mean, std::span<float> square,
                                     std::span<const float> gradient, const AdaptFactors& factors, Stream stream) = 0;
  [[nodiscard]] virtual Status adapt_moments(std::span<float> mean, std::span<float> square,
                                             std::span<const float> gradient, float beta_1, float beta_2,
                                             Stream stream) = 0;
  [[nodiscard]] virtual Status direction(std::span<float> out, std::span<const float> parameter,
                                         std::span<const float> mean, std::span<const float> square,
                                         const DirectionFactors& factors, Stream stream) = 0;
};

/// The kernels of this build; null in one without CUDA. The same each time. Thread-safe.
[[nodiscard]] std::shared_ptr<Kernels> real_kernels();

}  // namespace lockstep::detail::cuda
