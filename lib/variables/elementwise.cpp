// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "variables/elementwise.hpp"

#include "base/check.hpp"

#include <cstdint>
#include <type_traits>

namespace lockstep::detail {
namespace {

struct Add {
  template <class T>
  T operator()(T a, T b) const noexcept {
    return static_cast<T>(a + b);
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const noexcept {
    return static_cast<T>(a - b);
  }
};

template <class T, class Op>
void apply(TensorView target, ConstTensorView value, Op op) {
  T* const to = static_cast<T*>(target.data);
  const T* const from = static_cast<const T*>(value.data);
  const std::int64_t count = target.element_count();
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      to[i] = T(op(float(to[i]), float(from[i])));
    } else {
      to[i] = op(to[i], from[i]);
    }
  }
}

/// Signed integers go through the unsigned type of their width, so that they wrap.
template <class Op>
void apply(TensorView target, ConstTensorView value, Op op) {
  switch (target.dtype) {
    case DType::f16: return apply<Float16>(target, value, op);
    case DType::bf16: return apply<BFloat16>(target, value, op);
    case DType::f32: return apply<float>(target, value, op);
    case DType::f64: return apply<double>(target, value, op);
    case DType::i8:
    case DType::u8: return apply<std::uint8_t>(target, value, op);
    case DType::i16:
    case DType::u16: return apply<std::uint16_t>(target, value, op);
    case DType::i32:
    case DType::u32: return apply<std::uint32_t>(target, value, op);
    case DType::i64:
    case DType::u64: return apply<std::uint64_t>(target, value, op);
    case DType::boolean: throw_error(Code::invalid_argument, "assign_add, assign_sub: bool has no sum; use assign");
  }
}

}  // namespace

void add_to(TensorView target, ConstTensorView value) { apply(target, value, Add{}); }
void subtract_from(TensorView target, ConstTensorView value) { apply(target, value, Subtract{}); }

}  // namespace lockstep::detail
