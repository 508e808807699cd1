// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels for sums, and for means of floating-point types.

#include "device/cuda/bodies/families.hpp"
#include "device/cuda/launch.cuh"

namespace lockstep::detail::cuda {

Status launch_sum(const Fold& fold, std::int64_t count, Stream stream) {
  return with_wrapping<ReduceOp::sum>(
      fold.dtype, [&]<class Elements>(Elements) { return launch_fold<Elements>(fold, count, stream); });
}

}  // namespace lockstep::detail::cuda
