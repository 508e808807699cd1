// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows that slices name.

#include "device/cuda/bodies/families.hpp"
#include "device/cuda/launch.cuh"
#include "device/cuda/launches.hpp"

namespace lockstep::detail::cuda {
namespace {

template <class Elements>
__global__ void __launch_bounds__(threads_per_block) row_kernel(const __grid_constant__ RowArguments arguments) {
  update_rows<Elements, DeviceMemory>(arguments, this_worker());
}

}  // namespace

Status launch_rows(const RowUpdate& update, void* carried, Stream stream) {
  // the op of the elements means nothing: they tell signed from unsigned
  return with_ordered<ReduceOp::max>(update.dtype, [&]<class Elements>(Elements) {
    return with_row_arguments<Elements>(update, carried, [stream](const RowArguments& arguments) {
      return launch(row_kernel<Elements>, arguments, tiles(arguments, Elements::lanes), stream);
    });
  });
}

}  // namespace lockstep::detail::cuda
