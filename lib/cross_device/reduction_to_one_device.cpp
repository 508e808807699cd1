// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cross_device/reduction_to_one_device.hpp>

#include "base/check.hpp"
#include "cross_device/elements.hpp"

#include <lockstep/device/tensor.hpp>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr int root = 0;  // the rank that reduces

/// The values of all replicas, in id order, on the root; nothing elsewhere.
std::vector<Tensor> gathered_values(Communicator& communicator, const Item& item, const ReduceOptions& how) {
  const ConstTensorView& first = item.inputs.front();
  std::vector<Tensor> values;
  if (communicator.size() == 1) {
    for (const ConstTensorView& input : item.inputs) {
      values.push_back(Tensor::uninitialized(input.dtype, input.shape));
      values.back().copy_from(input);
    }
    return values;
  }
  const int replicas = communicator.layout().replicas();
  const std::int64_t count = first.element_count();
  std::vector<ConstTensorView> flat;
  for (const ConstTensorView& input : item.inputs) flat.emplace_back(input.data, input.dtype, Shape{count});
  Tensor all;
  std::vector<TensorView> outputs;
  if (communicator.rank() == root) {
    all = Tensor::uninitialized(first.dtype, Shape{replicas * count});
    outputs.push_back(all.view());
  }
  const Item gathered{flat, outputs};
  communicator.gather(std::span(&gathered, 1), root, how);
  if (communicator.rank() != root) return values;
  const char* from = static_cast<const char*>(std::as_const(all).data());
  for (int r = 0; r < replicas; ++r) {
    values.push_back(Tensor::uninitialized(first.dtype, first.shape));
    values.back().copy_from({from + static_cast<std::size_t>(r) * first.byte_count(), first.dtype, first.shape});
  }
  return values;
}

/// The reduction of `item` on the root, by `accumulate` or along the canonical tree.
Tensor reduced(Communicator& communicator, const Item& item, ReduceOp op, const AccumulationFunction& accumulate,
               Device device, const ReduceOptions& how) {
  const ConstTensorView& first = item.inputs.front();
  const bool is_root = communicator.rank() == root;
  if (accumulate == nullptr || (op != ReduceOp::sum && op != ReduceOp::mean)) {
    Tensor result = Tensor::uninitialized(result_dtype(op, first.dtype), first.shape, nullptr, device);
    const TensorView output = result.view();
    const Item to_root{item.inputs, is_root ? std::span(&output, 1) : std::span<const TensorView>()};
    communicator.reduce(std::span(&to_root, 1), op, root, how);
    return result;
  }
  std::vector<Tensor> values = gathered_values(communicator, item, how);
  const DType dtype = result_dtype(op, first.dtype);
  Tensor sum(dtype, first.shape, nullptr, device);
  if (!is_root) return sum;
  std::vector<ConstTensorView> views;
  for (Tensor& value : values) {
    if (value.dtype() != dtype) value = converted_to_f64(value.view());
    views.push_back(std::as_const(value).view());
  }
  accumulate(views, sum.view());
  if (op == ReduceOp::mean) divide_elements(sum.view(), communicator.layout().replicas());
  return sum;
}

}  // namespace

ReductionToOneDevice::ReductionToOneDevice(std::optional<Device> reduce_to_device, AccumulationFunction accumulation_fn)
    : reduce_to_device_(reduce_to_device), accumulation_fn_(std::move(accumulation_fn)) {
  if (reduce_to_device && reduce_to_device->kind != DeviceKind::cpu) {
    detail::throw_error(Code::unavailable,
                        "ReductionToOneDevice: device {} is not here; this build has the devices cpu:0, cpu:1, ...",
                        to_string(*reduce_to_device));
  }
}

std::string ReductionToOneDevice::describe() const {
  return fmt::format("ReductionToOneDevice(reduce_to_device {}, {})",
                     reduce_to_device_ ? to_string(*reduce_to_device_) : "the first input's",
                     accumulation_fn_ ? "accumulation_fn of the user" : "canonical tree");
}

void ReductionToOneDevice::do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                                           const CommunicationOptions& options) {
  const ReduceOptions how{.order = {}, .name = {}, .fail_after = options.deadline()};
  for (const Item& item : items) {
    const Device device = reduce_to_device_.value_or(item.inputs.front().device);
    Tensor result = reduced(communicator, item, op, accumulation_fn_, device, how);
    const ConstTensorView total = std::as_const(result).view();
    const bool is_root = communicator.rank() == root;
    // off the root there must be a place for what comes
    const TensorView scratch = result.view();
    const bool needs_scratch = !is_root && item.outputs.empty();
    const Item to_all{is_root ? std::span(&total, 1) : std::span<const ConstTensorView>(),
                      needs_scratch ? std::span(&scratch, 1) : item.outputs};
    communicator.broadcast(std::span(&to_all, 1), root, how);
  }
}

}  // namespace lockstep
