// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels for products.

#include "device/cuda/bodies/families.hpp"
#include "device/cuda/launch.cuh"

namespace lockstep::detail::cuda {

Status launch_product(const Fold& fold, std::int64_t count, Stream stream) {
  return with_wrapping<ReduceOp::prod>(
      fold.dtype, [&]<class Elements>(Elements) { return launch_fold<Elements>(fold, count, stream); });
}

}  // namespace lockstep::detail::cuda
