// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/distributed_items.hpp"

#include "base/check.hpp"
#include "core/refusal.hpp"

namespace lockstep {
namespace {

void check_item(const Item& item, ReduceOp op, std::string_view call, int local_replicas, int first_replica) {
  check_component_count(item.inputs.size(), call, local_replicas);
  const ConstTensorView& first = item.inputs.front();
  if (!supports(op, first.dtype)) {
    detail::throw_error(Code::invalid_argument, "{}: {}", call, detail::refusal(op, first.dtype));
  }
  check_same_dtype(item.inputs, call, first_replica);
  for (std::size_t i = 1; i < item.inputs.size(); ++i) {
    const ConstTensorView& other = item.inputs[i];
    if (other.shape == first.shape) continue;
    detail::throw_error(
        Code::invalid_argument,
        "{}: value has shape {} on replica {} but {} on replica {}; shapes must match unless axis is given", call,
        to_string(other.shape), first_replica + static_cast<int>(i), to_string(first.shape), first_replica);
  }
  for (const TensorView& output : item.outputs) {
    if (output.dtype != result_dtype(op, first.dtype)) {
      detail::throw_error(
          Code::invalid_argument,
          "{}: the {} of {} is {}, which the result's element type {} cannot hold; name the result's type, as in "
          "reduce<double>(ReduceOp::mean, value), or give Tensors",
          call, to_string(op), to_string(first.dtype), to_string(result_dtype(op, first.dtype)),
          to_string(output.dtype));
    }
  }
}

}  // namespace

void check_component_count(std::size_t components, std::string_view call, int local_replicas) {
  if (components == static_cast<std::size_t>(local_replicas)) return;
  detail::throw_error(
      Code::invalid_argument,
      "{}: value has {} components, but this rank has {} replicas; it must have one component per replica", call,
      components, local_replicas);
}

void check_same_dtype(std::span<const ConstTensorView> components, std::string_view call, int first_replica) {
  const DType first = components.front().dtype;
  for (std::size_t i = 1; i < components.size(); ++i) {
    if (components[i].dtype == first) continue;
    detail::throw_error(
        Code::invalid_argument, "{}: value is {} on replica {} but {} on replica {}; element types must match", call,
        to_string(components[i].dtype), first_replica + static_cast<int>(i), to_string(first), first_replica);
  }
}

void check_distributed_items(std::span<const Item> items, ReduceOp op, std::string_view call, int local_replicas,
                             int first_replica) {
  for (const Item& item : items) check_item(item, op, call, local_replicas, first_replica);
}

}  // namespace lockstep
