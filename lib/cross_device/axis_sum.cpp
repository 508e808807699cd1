// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/axis_sum.hpp"

#include "base/check.hpp"

#include <array>
#include <cstdint>
#include <type_traits>

namespace lockstep {
namespace {

/// A tensor around one axis: [outer, length, inner].
struct Split {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};

Split split_at(const Shape& shape, int axis) {
  Split split;
  for (int i = 0; i < axis; ++i) split.outer *= shape[i];
  split.length = shape[axis];
  for (int i = axis + 1; i < shape.rank(); ++i) split.inner *= shape[i];
  return split;
}

Shape without(const Shape& shape, int axis) {
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::size_t rank = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) extents[rank++] = shape[i];
  }
  return Shape(std::span<const std::int64_t>(extents.data(), rank));
}

template <class T>
using sum_bits = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>;

/// In Sum's unsigned type where it is an integer, so that sums wrap.
template <class T, class Sum>
void add_rows(const ConstTensorView& value, const Split& split, TensorView result) {
  using Bits = typename sum_bits<Sum>::type;
  const T* from = static_cast<const T*>(value.data);
  Bits* const to = static_cast<Bits*>(result.data);
  for (std::int64_t o = 0; o < split.outer; ++o) {
    Bits* const row = to + o * split.inner;
    for (std::int64_t k = 0; k < split.length; ++k) {
      for (std::int64_t i = 0; i < split.inner; ++i)
        row[i] = static_cast<Bits>(row[i] + static_cast<Bits>(static_cast<Sum>(from[i])));
      from += split.inner;
    }
  }
}

template <class T>
void add_integers(const ConstTensorView& value, const Split& split, TensorView result) {
  result.dtype == DType::f64 ? add_rows<T, double>(value, split, result) : add_rows<T, T>(value, split, result);
}

template <class T>
void divide_elements(Tensor& sum, std::int64_t count) {
  for (T& element : sum.elements<T>()) element = element / static_cast<T>(count);
}

template <class T>
Tensor round_to(const Tensor& value) {
  Tensor result(dtype_of<T>, value.shape());
  const auto from = value.elements<float>();
  const auto to = result.elements<T>();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = T(from[i]);
  return result;
}

}  // namespace

int resolve_axis(int axis, const Shape& shape) {
  const int resolved = axis < 0 ? axis + shape.rank() : axis;
  if (resolved < 0 || resolved >= shape.rank()) {
    detail::throw_error(Code::invalid_argument,
                        "reduce: axis {} does not exist in a value of shape {}, which has {} axes", axis,
                        to_string(shape), shape.rank());
  }
  return resolved;
}

Tensor axis_sum(ConstTensorView value, int axis, ReduceOp op) {
  if (op != ReduceOp::sum && op != ReduceOp::mean) {
    detail::throw_error(Code::invalid_argument, "reduce: {} along an axis is not defined; use sum or mean",
                        to_string(op));
  }
  const Split split = split_at(value.shape, axis);
  Tensor result(accumulation_dtype(op, value.dtype), without(value.shape, axis));
  const TensorView to = result.view();
  switch (value.dtype) {
    case DType::f16: add_rows<Float16, float>(value, split, to); break;
    case DType::bf16: add_rows<BFloat16, float>(value, split, to); break;
    case DType::f32: add_rows<float, float>(value, split, to); break;
    case DType::f64: add_rows<double, double>(value, split, to); break;
    case DType::i8: add_integers<std::int8_t>(value, split, to); break;
    case DType::i16: add_integers<std::int16_t>(value, split, to); break;
    case DType::i32: add_integers<std::int32_t>(value, split, to); break;
    case DType::i64: add_integers<std::int64_t>(value, split, to); break;
    case DType::u8: add_integers<std::uint8_t>(value, split, to); break;
    case DType::u16: add_integers<std::uint16_t>(value, split, to); break;
    case DType::u32: add_integers<std::uint32_t>(value, split, to); break;
    case DType::u64: add_integers<std::uint64_t>(value, split, to); break;
    case DType::boolean:
      detail::throw_error(Code::invalid_argument, "reduce: bool has no {}; convert the value", to_string(op));
  }
  return result;
}

void divide_by(Tensor& sum, std::int64_t count) {
  sum.dtype() == DType::f64 ? divide_elements<double>(sum, count) : divide_elements<float>(sum, count);
}

Tensor rounded_to(const Tensor& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  return dtype == DType::f16 ? round_to<Float16>(value) : round_to<BFloat16>(value);
}

}  // namespace lockstep
