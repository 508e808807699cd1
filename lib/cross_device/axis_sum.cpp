// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/axis_sum.hpp"

#include "base/check.hpp"
#include "core/visit_dtype.hpp"
#include "device/host/host_elements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

namespace lockstep {
namespace {

bool has(unsigned mask, int axis) { return (mask >> static_cast<unsigned>(axis) & 1U) != 0; }

/// A run of axes that all are summed over, or all stay; strides in elements.
struct Run {
  std::int64_t extent = 1;
  std::int64_t from_stride = 1;
  std::int64_t to_stride = 1;  // 0: summed over
};

/// A shape as its runs, the outermost first.
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

/// In row-major order; the innermost run is contiguous.
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

}  // namespace

Tensor axis_sum(ConstTensorView value, unsigned mask, ReduceOp op) {
  if (op != ReduceOp::sum && op != ReduceOp::mean) {
    detail::throw_error(Code::invalid_argument, "reduce: {} along an axis is not defined; use sum or mean",
                        to_string(op));
  }
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

}  // namespace lockstep
