// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/axis_reduction.hpp"

#include "base/check.hpp"
#include "core/visit_dtype.hpp"
#include "cross_device/distributed_items.hpp"
#include "cross_device/elements.hpp"
#include "device/host/host_elements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace {

bool has(unsigned mask, int axis) { return (mask >> static_cast<unsigned>(axis) & 1U) != 0; }

/// Adjacent axes that are either all summed over or all kept. Strides are in elements.
struct Run {
  std::int64_t extent = 1;
  std::int64_t from_stride = 1;
  std::int64_t to_stride = 1;  // 0 if the axes are summed over
};

/// The runs of a shape, from the outermost to the innermost.
struct Runs {
  std::array<Run, Shape::max_rank> list;
  std::size_t size = 0;

  Runs(const Shape& shape, unsigned mask) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool starts = axis == 0 || has(mask, axis) != has(mask, axis - 1);
      if (starts) ++size;
      Run& run = list[size - 1];
      run.extent *= shape[axis];
      run.to_stride = has(mask, axis) ? 0 : 1;
    }
    std::int64_t from = 1;
    std::int64_t to = 1;
    for (std::size_t i = size; i-- > 0;) {
      Run& run = list[i];
      run.from_stride = from;
      from *= run.extent;
      if (run.to_stride == 0) continue;
      run.to_stride = to;
      to *= run.extent;
    }
  }
};

/// Adds the elements in row-major order. The innermost run is contiguous.
template <class T, class Sum>
void add_runs(std::span<const Run> runs, const T* from, Sum* to) {
  if (runs.empty()) {
    *to = static_cast<Sum>(*to + static_cast<Sum>(*from));
    return;
  }
  const Run& run = runs.front();
  if (runs.size() > 1) {
    for (std::int64_t i = 0; i < run.extent; ++i)
      add_runs(runs.subspan(1), from + i * run.from_stride, to + i * run.to_stride);
  } else if (run.to_stride == 0) {
    Sum sum = *to;
    for (std::int64_t i = 0; i < run.extent; ++i) sum = static_cast<Sum>(sum + static_cast<Sum>(from[i]));
    *to = sum;
  } else {
    for (std::int64_t i = 0; i < run.extent; ++i) to[i] = static_cast<Sum>(to[i] + static_cast<Sum>(from[i]));
  }
}

template <class T>
void add_elements(const ConstTensorView& value, const Runs& runs, const TensorView& result) {
  if (value.element_count() == 0) return;
  const std::span<const Run> list(runs.list.data(), runs.size);
  const T* const from = static_cast<const T*>(value.data);
  if constexpr (std::integral<T>) {
    if (result.dtype == DType::f64) return add_runs(list, from, static_cast<double*>(result.data));
  }
  add_runs(list, from, static_cast<detail::sum_t<T>*>(result.data));
}

Shape without(const Shape& shape, unsigned mask) {
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::size_t rank = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!has(mask, axis)) extents[rank++] = shape[axis];
  }
  return Shape(std::span<const std::int64_t>(extents.data(), rank));
}

std::vector<ConstTensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<ConstTensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

std::vector<Item> items_of(const std::vector<std::vector<ConstTensorView>>& inputs,
                           const std::vector<TensorView>& outputs) {
  std::vector<Item> items;
  for (std::size_t k = 0; k < inputs.size(); ++k) items.push_back({inputs[k], std::span(&outputs[k], 1)});
  return items;
}

}  // namespace

Tensor axis_sum(ConstTensorView value, unsigned mask, ReduceOp op) {
  if (value.dtype == DType::boolean) {
    detail::throw_error(Code::invalid_argument, "reduce: bool has no {}; convert the value", to_string(op));
  }
  Tensor result(accumulation_dtype(op, value.dtype), without(value.shape, mask));
  const Runs runs(value.shape, mask);
  const detail::HostElements elements(value);
  detail::visit_dtype(value.dtype, [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) add_elements<T>(elements.view(), runs, result.view());
  });
  return result;
}

std::int64_t axis_count(const Shape& shape, unsigned mask) {
  std::int64_t count = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (has(mask, axis)) count *= shape[axis];
  }
  return count;
}

AxisReduction::AxisReduction(std::span<const AxisLeaf> leaves, ReduceOp op, const Axes& axes, int local_replicas,
                             int first_replica)
    : op_(op) {
  if (op != ReduceOp::sum && op != ReduceOp::mean) {
    detail::throw_error(Code::invalid_argument, "reduce: {} along an axis is not defined; use sum or mean",
                        to_string(op));
  }
  for (const AxisLeaf& leaf : leaves) {
    Leaf& local = leaves_.emplace_back();
    local.dtype = leaf.components.front().dtype;
    for (const ConstTensorView& component : leaf.components) {
      const unsigned mask = axes.mask(component.shape, "reduce");
      local.sums.push_back(axis_sum(component, mask, op));
      local.counts.push_back(Tensor::scalar(axis_count(component.shape, mask)));
    }
    if (leaf.is_shared) {
      local.total = local.sums.front();
      local.count = local.counts.front();
      continue;
    }
    check_leaf(leaf, local, local_replicas, first_replica);
    local.total = Tensor(local.sums.front().dtype(), local.sums.front().shape());
    local.count = Tensor(DType::i64, Shape{});
    sum_views_.push_back(views_of(local.sums));
    count_views_.push_back(views_of(local.counts));
    total_views_.push_back(local.total.view());
    total_count_views_.push_back(local.count.view());
  }
}

void AxisReduction::check_leaf(const AxisLeaf& leaf, const Leaf& local, int local_replicas, int first_replica) const {
  check_component_count(leaf.components.size(), "reduce", local_replicas);
  check_same_dtype(leaf.components, "reduce", first_replica);
  for (std::size_t i = 1; i < leaf.components.size(); ++i) {
    if (local.sums[i].shape() == local.sums.front().shape()) continue;
    detail::throw_error(Code::invalid_argument,
                        "reduce: value has shape {} on replica {} but {} on replica {}; the axes that are not reduced "
                        "must match",
                        to_string(leaf.components[i].shape), first_replica + static_cast<int>(i),
                        to_string(leaf.components.front().shape), first_replica);
  }
  const std::vector<ConstTensorView> views = views_of(local.sums);
  const Item item{views, {}};
  check_distributed_items(std::span(&item, 1), ReduceOp::sum, "reduce", local_replicas, first_replica);
}

std::vector<Item> AxisReduction::values() const { return items_of(sum_views_, total_views_); }

std::vector<Item> AxisReduction::counts() const {
  if (op_ == ReduceOp::sum) return {};
  return items_of(count_views_, total_count_views_);
}

std::vector<Tensor> AxisReduction::results() {
  std::vector<Tensor> results;
  for (Leaf& leaf : leaves_) {
    if (op_ == ReduceOp::mean) divide_elements(leaf.total.view(), leaf.count.elements<std::int64_t>().front());
    results.push_back(rounded_to(leaf.total, result_dtype(op_, leaf.dtype)));
  }
  return results;
}

}  // namespace lockstep
