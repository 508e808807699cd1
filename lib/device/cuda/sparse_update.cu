// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels for sparse updates.

#include "device/cuda/bodies/families.hpp"
#include "device/cuda/launch.cuh"

namespace lockstep::detail::cuda {
namespace {

template <class Elements>
__global__ void __launch_bounds__(threads_per_block)
    row_kernel(const __grid_constant__ SparseUpdateArguments arguments) {
  apply_sparse_update<Elements, DeviceMemory>(arguments, this_worker());
}

}  // namespace

Status launch_sparse_update(const SparseUpdate& update, void* carried, Stream stream) {
  // ReduceOp::max is not used; with_ordered is called because it distinguishes signed from unsigned integers
  return with_ordered<ReduceOp::max>(update.dtype, [&]<class Elements>(Elements) {
    return with_sparse_update_arguments<Elements>(update, carried, [stream](const SparseUpdateArguments& arguments) {
      return launch<row_kernel<Elements>>(arguments, tiles(arguments, Elements::lanes), stream);
    });
  });
}

}  // namespace lockstep::detail::cuda
