// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels for means of integers, which are computed in f64.

#include "device/cuda/bodies/families.hpp"
#include "device/cuda/launch.cuh"

namespace lockstep::detail::cuda {

Status launch_integer_mean(const Fold& fold, std::int64_t count, Stream stream) {
  return with_integer_means(fold.dtype,
                            [&]<class Elements>(Elements) { return launch_fold<Elements>(fold, count, stream); });
}

}  // namespace lockstep::detail::cuda
