// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cross_device/cross_device_ops.hpp>

#include "base/check.hpp"
#include "collectives/staged_items.hpp"
#include "cross_device/distributed_items.hpp"
#include "cross_device/nccl_demand.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "kernels/reduce.hpp"

#include <lockstep/collectives/detail/propagate.hpp>
#include "schedule/canonical_tree.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

constexpr std::string_view demand = "CommunicationOptions: implementation NCCL";

bool demands_nccl(const CommunicationOptions& options) {
  return options.implementation == CommunicationImplementation::nccl;
}

/// Whether all views are on one GPU, and one kernel launch can reduce all of them.
bool is_on_one_gpu(const Item& item) {
  const Device gpu = item.inputs.front().device;
  const auto is_there = [gpu](const auto& view) { return view.device == gpu; };
  return gpu.kind == DeviceKind::gpu && std::all_of(item.inputs.begin(), item.inputs.end(), is_there) &&
         std::all_of(item.outputs.begin(), item.outputs.end(), is_there) &&
         item.inputs.size() <= detail::cuda::Kernels::most_inputs &&
         item.outputs.size() <= detail::cuda::Kernels::most_outputs;
}

/// Reduces on the device of the views. All views are on the same device.
void fold_in_place(const Item& item, ReduceOp op) {
  const int count = static_cast<int>(item.inputs.size());
  std::vector<detail::FoldInput> leaves;
  for (const ConstTensorView& input : item.inputs) leaves.push_back({input.data, false});
  std::vector<void*> targets;
  for (const TensorView& output : item.outputs) targets.push_back(output.data);
  const std::vector<std::uint8_t> merges = detail::fold_merges_of_leaves({0, count});
  detail::Fold fold;
  fold.op = op;
  fold.dtype = item.inputs.front().dtype;
  fold.inputs = leaves;
  fold.merges = merges;
  fold.outputs = targets;
  fold.replicas = count;
  const std::int64_t elements = item.inputs.front().element_count();
  const Device place = item.inputs.front().device;
  if (place.kind == DeviceKind::cpu) {
    detail::reduce(fold, elements);
  } else if (elements > 0) {
    const detail::cuda::CurrentDevice current(place.index);
    detail::cuda::Backend& backend = detail::cuda::Backend::of_this_process();
    detail::cuda::check(backend.api(), backend.kernels().reduce(fold, elements, detail::cuda::stream_of(place)),
                        "reduce_local: the kernel");
  }
}

}  // namespace

CrossDeviceOps::~CrossDeviceOps() = default;

void CrossDeviceOps::reduce(Communicator& communicator, const Item& item, ReduceOp op,
                            const CommunicationOptions& options) {
  batch_reduce(communicator, std::span(&item, 1), op, options);
}

void CrossDeviceOps::batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                                  const CommunicationOptions& options) {
  if (items.empty()) return;
  detail::propagate(communicator, [&] {
    if (demands_nccl(options)) require_nccl_here(demand);
    check_distributed_items(items, op, "batch_reduce", communicator.local_replicas(),
                            communicator.layout().first(communicator.rank()));
    if (demands_nccl(options)) require_nccl(communicator, items, demand);
    do_batch_reduce(communicator, items, op, options);
  });
}

void CrossDeviceOps::broadcast(Communicator& communicator, std::span<const Item> items, int root,
                               const CommunicationOptions& options) {
  if (items.empty()) return;
  detail::propagate(communicator, [&] {
    if (demands_nccl(options)) require_nccl_here(demand);
    do_broadcast(communicator, items, root, options);
  });
}

void CrossDeviceOps::gather(Communicator& communicator, std::span<const Item> items, std::span<const std::int64_t> rows,
                            const CommunicationOptions& options) {
  if (items.empty()) return;
  detail::propagate(communicator, [&] {
    if (demands_nccl(options)) require_nccl_here(demand);
    do_gather(communicator, items, rows, options);
  });
}

void CrossDeviceOps::do_broadcast(Communicator& communicator, std::span<const Item> items, int root,
                                  const CommunicationOptions& options) {
  detail::with_staged(
      items, {detail::path_of(options), detail::DecidedBy::outputs, &communicator}, [&](std::span<const Item> staged) {
        communicator.broadcast(staged, root,
                               {.order = {}, .name = {}, .fail_after = options.deadline(), .where = options.where});
      });
}

void CrossDeviceOps::do_gather(Communicator& communicator, std::span<const Item> items,
                               std::span<const std::int64_t> rows, const CommunicationOptions& options) {
  // All items are in one call, because all have the same `rows`. If one item needs host memory, all items use host
  // memory.
  const bool on_gpus = std::all_of(items.begin(), items.end(), [&](const Item& item) {
    return detail::kind_of(item, detail::path_of(options), detail::DecidedBy::inputs) == DeviceKind::gpu;
  });
  const detail::DataPath path = on_gpus ? detail::DataPath::as_placed : detail::DataPath::host;
  detail::with_staged(items, {.path = path}, [&](std::span<const Item> staged) {
    communicator.all_gather_v(staged, rows,
                              {.order = {}, .name = {}, .fail_after = options.deadline(), .where = options.where});
  });
}

void reduce_local(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs, ReduceOp op) {
  if (inputs.empty()) {
    detail::throw_error(Code::invalid_argument, "reduce_local: inputs is empty; it must have one input per replica");
  }
  const Item item{inputs, outputs};
  const int count = static_cast<int>(inputs.size());
  check_distributed_items(std::span(&item, 1), op, "reduce_local", count, 0);
  if (outputs.empty()) return;
  if (is_on_one_gpu(item)) return fold_in_place(item, op);
  detail::with_staged(std::span(&item, 1), {.path = detail::DataPath::host},
                      [op](std::span<const Item> staged) { fold_in_place(staged.front(), op); });
}

}  // namespace lockstep
