// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels for bitwise and, or, and exclusive or.

#include "device/cuda/bodies/families.hpp"
#include "device/cuda/launch.cuh"

namespace lockstep::detail::cuda {

Status launch_bits(const Fold& fold, std::int64_t count, Stream stream) {
  const auto launched = [&]<class Elements>(Elements) { return launch_fold<Elements>(fold, count, stream); };
  switch (fold.op) {
    case ReduceOp::band: return with_sizes<ReduceOp::band>(fold.dtype, launched);
    case ReduceOp::bor: return with_sizes<ReduceOp::bor>(fold.dtype, launched);
    default: return with_sizes<ReduceOp::bxor>(fold.dtype, launched);
  }
}

}  // namespace lockstep::detail::cuda
