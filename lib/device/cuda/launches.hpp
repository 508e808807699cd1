// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Launches of kernels that exist per dtype: one source per function, so that they compile in parallel.

#pragma once

#include "device/cuda/kernels.hpp"

#include <cstdint>

namespace lockstep::detail::cuda {

[[nodiscard]] Status launch_sum(const Fold& fold, std::int64_t count, Stream stream);  ///< and means of floats
[[nodiscard]] Status launch_integer_mean(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_minimum(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_maximum(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_product(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_bits(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_sparse_update(const SparseUpdate& update, void* carried, Stream stream);

}  // namespace lockstep::detail::cuda
