// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "values/sparse_update.hpp"

#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/core/reduce_op.hpp>
#include <lockstep/device/gpu.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {
namespace {

/// The copies that write the last slice of each row to the target.
std::vector<cuda::CopyRegion> last_slices(const SparseUpdate& update) {
  const std::size_t bytes = static_cast<std::size_t>(update.width) * size_of(update.dtype);
  std::vector<cuda::CopyRegion> regions;
  for (std::size_t k = 0; k < update.steps.size(); ++k) {
    const RowStep& step = update.steps[k];
    if (k + 1 < update.steps.size() && update.steps[k + 1].row == step.row) continue;
    regions.push_back({static_cast<const std::byte*>(update.slices) + static_cast<std::size_t>(step.slice) * bytes,
                       static_cast<std::byte*>(update.target) + static_cast<std::size_t>(step.row) * bytes, bytes});
  }
  return regions;
}

/// Applies `update` on the GPU `place`.
void update_there(const SparseUpdate& update, Device place) {
  const cuda::CurrentDevice current(place.index);
  cuda::Backend& backend = cuda::Backend::of_this_process();
  const cuda::Stream stream = cuda::stream_of(place);
  if (update.op == ElementOp::update) {
    return cuda::check(backend.api(), backend.kernels().copy(last_slices(update), stream), "rows: the kernel");
  }
  std::optional<Tensor> carried;
  if (update.steps.size() > cuda::Kernels::most_row_steps) {
    const DType dtype = accumulation_dtype(ReduceOp::sum, update.dtype);
    carried = Tensor::uninitialized(dtype, Shape{update.width}, nullptr, place);
  }
  cuda::check(backend.api(), backend.kernels().apply_sparse_update(update, carried ? carried->data() : nullptr, stream),
              "rows: the kernel");
}

}  // namespace

void apply_sparse_update(TensorView target, ElementOp op, const IndexedSlices& slices, int divisor) {
  if (slices.values.element_count() == 0) return;
  const HostElements indices(slices.indices.view());
  const std::vector<RowStep> steps = steps_by_row(indices.elements<std::int64_t>());
  SparseUpdate update{.op = op, .dtype = target.dtype, .target = target.data, .steps = steps, .divisor = divisor};
  update.width = slices.values.element_count() / slices.indices.element_count();
  if (is_on_host(target.device)) {
    const HostElements values(slices.values.view());
    update.slices = values.view().data;
    apply_sparse_update(update);
  } else {
    const Tensor values = slices.values.to(target.device);
    update.slices = values.data();
    update_there(update, target.device);
  }
}

}  // namespace lockstep::detail
