// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cross_device/reduction_to_one_device.hpp>

#include "base/check.hpp"
#include "collectives/staged_items.hpp"
#include "cross_device/elements.hpp"
#include "device/cuda/backend.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr int root = 0;  // the rank that reduces

/// Options of the collectives of one call.
struct Exchange {
  detail::DataPath path;
  ReduceOptions options;
};

/// A copy of `value` on `device`.
Tensor copied_to(Device device, ConstTensorView value) {
  Tensor result = Tensor::uninitialized(value.dtype, value.shape, nullptr, device);
  copy(result.view(), value);
  return result;
}

/// Gathers the values of all replicas on `device` of the root, in the order of replica ids. Other ranks return an empty
/// list.
std::vector<Tensor> gathered_values(Communicator& communicator, const Item& item, Device device,
                                    const Exchange& exchange) {
  const ConstTensorView& first = item.inputs.front();
  std::vector<Tensor> values;
  if (communicator.size() == 1) {
    for (const ConstTensorView& input : item.inputs) values.push_back(copied_to(device, input));
    return values;
  }
  const int replicas = communicator.layout().replicas();
  const std::int64_t count = first.element_count();
  std::vector<ConstTensorView> flat;
  for (const ConstTensorView& input : item.inputs)
    flat.emplace_back(input.data, input.dtype, Shape{count}, input.device);
  Tensor all;
  std::vector<TensorView> outputs;
  if (communicator.rank() == root) {
    all = Tensor::uninitialized(first.dtype, Shape{replicas * count}, nullptr, device);
    outputs.push_back(all.view());
  }
  const Item gathered{flat, outputs};
  detail::with_staged(std::span(&gathered, 1), {.path = exchange.path},
                      [&](std::span<const Item> staged) { communicator.gather(staged, root, exchange.options); });
  if (communicator.rank() != root) return values;
  const char* from = static_cast<const char*>(std::as_const(all).data());
  for (int r = 0; r < replicas; ++r) {
    const std::size_t begin = static_cast<std::size_t>(r) * first.byte_count();
    values.push_back(copied_to(device, {from + begin, first.dtype, first.shape, device}));
  }
  return values;
}

/// Reduces `item` to the root. Sums and means are computed by `accumulate`, unless it is null; all other results are
/// computed by the communicator's reduce. The result is valid only on the root.
Tensor reduced(Communicator& communicator, const Item& item, ReduceOp op, const AccumulationFunction& accumulate,
               Device device, const Exchange& exchange) {
  const ConstTensorView& first = item.inputs.front();
  const bool is_root = communicator.rank() == root;
  if (accumulate == nullptr || (op != ReduceOp::sum && op != ReduceOp::mean)) {
    Tensor result = Tensor::uninitialized(result_dtype(op, first.dtype), first.shape, nullptr, device);
    const TensorView output = result.view();
    const Item to_root{item.inputs, is_root ? std::span(&output, 1) : std::span<const TensorView>()};
    detail::with_staged(std::span(&to_root, 1), {.path = exchange.path},
                        [&](std::span<const Item> staged) { communicator.reduce(staged, op, root, exchange.options); });
    return result;
  }
  std::vector<Tensor> values = gathered_values(communicator, item, device, exchange);
  const DType dtype = result_dtype(op, first.dtype);
  Tensor sum(dtype, first.shape, nullptr, device);
  if (!is_root) return sum;
  std::vector<ConstTensorView> views;
  for (Tensor& value : values) {
    if (value.dtype() != dtype) value = converted_to(value.view(), DType::f64);
    views.push_back(std::as_const(value).view());
  }
  accumulate(views, sum.view());
  if (op == ReduceOp::mean) divide_elements(sum.view(), communicator.layout().replicas());
  return sum;
}

}  // namespace

ReductionToOneDevice::ReductionToOneDevice(std::optional<Device> reduce_to_device, AccumulationFunction accumulation_fn)
    : reduce_to_device_(reduce_to_device), accumulation_fn_(std::move(accumulation_fn)) {
  if (reduce_to_device && !detail::is_on_host(*reduce_to_device)) {
    detail::cuda::Backend::of_this_process().require(*reduce_to_device, "ReductionToOneDevice: reduce_to_device");
  }
}

std::string ReductionToOneDevice::describe() const {
  return fmt::format("ReductionToOneDevice(reduce_to_device {}, {})",
                     reduce_to_device_ ? to_string(*reduce_to_device_) : "the first input's",
                     accumulation_fn_ ? "accumulation_fn of the user" : "canonical tree");
}

void ReductionToOneDevice::do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                                           const CommunicationOptions& options) {
  for (const Item& item : items) {
    const Device device = reduce_to_device_.value_or(item.inputs.front().device);
    const Exchange exchange{detail::is_on_host(device) ? detail::DataPath::host : detail::path_of(options),
                            {.order = {}, .name = {}, .fail_after = options.deadline(), .where = options.where}};
    Tensor result = reduced(communicator, item, op, accumulation_fn_, device, exchange);
    const ConstTensorView total = std::as_const(result).view();
    const bool is_root = communicator.rank() == root;
    // a rank other than the root needs an output that receives the broadcast
    const TensorView scratch = result.view();
    const bool needs_scratch = !is_root && item.outputs.empty();
    const Item to_all{is_root ? std::span(&total, 1) : std::span<const ConstTensorView>(),
                      needs_scratch ? std::span(&scratch, 1) : item.outputs};
    detail::with_staged(std::span(&to_all, 1), {exchange.path, detail::DecidedBy::outputs, &communicator},
                        [&](std::span<const Item> staged) { communicator.broadcast(staged, root, exchange.options); });
  }
}

}  // namespace lockstep
