// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels for elementwise arithmetic.

#include "device/cuda/bodies/families.hpp"
#include "device/cuda/launch.cuh"

namespace lockstep::detail::cuda {
namespace {

template <class Elements>
__global__ void __launch_bounds__(threads_per_block)
    elementwise_kernel(const __grid_constant__ ElementwiseArguments arguments) {
  compute_elementwise<Elements, DeviceMemory>(arguments, this_worker());
}

}  // namespace

Status launch_elementwise(const Elementwise& what, Stream stream) {
  // ReduceOp::max is not used; with_ordered is called because it distinguishes signed from unsigned integers
  return with_ordered<ReduceOp::max>(what.dtype, [&]<class Elements>(Elements) {
    const ElementwiseArguments arguments = elementwise_arguments(what, shape_of<Elements>);
    return launch<elementwise_kernel<Elements>>(arguments, tiles(arguments.split, Elements::lanes, 1).count(), stream);
  });
}

}  // namespace lockstep::detail::cuda
