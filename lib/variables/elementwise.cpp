// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "variables/elementwise.hpp"

#include "base/check.hpp"
#include "core/visit_dtype.hpp"

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lockstep::detail {
namespace {

/// target[i] = op(target[i], value[i]), in the type that elements are added in.
template <class Op>
void apply(TensorView target, ConstTensorView value, Op op) {
  visit_dtype(target.dtype, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      throw_error(Code::invalid_argument, "assign_add, assign_sub: bool has no sum; use assign");
    } else {
      using Sum = sum_t<T>;
      T* const to = static_cast<T*>(target.data);
      const T* const from = static_cast<const T*>(value.data);
      const std::int64_t count = target.element_count();
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = static_cast<T>(op(static_cast<Sum>(to[i]), static_cast<Sum>(from[i])));
      }
    }
  });
}

/// Truncated towards zero, with the remainder spread over the first replicas: the shares add up to `total`.
template <class T>
T integer_share(T total, int replica, int replicas) {
  // wider than any element but u64, which alone needs the unsigned one
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  const Wide wide = total;
  const Wide quotient = wide / static_cast<Wide>(replicas);
  const Wide remainder = wide % static_cast<Wide>(replicas);
  const auto id = static_cast<Wide>(replica);
  if constexpr (std::is_signed_v<T>) {
    if (remainder < 0) return static_cast<T>(quotient - (id < -remainder ? 1 : 0));
  }
  return static_cast<T>(quotient + (id < remainder ? 1 : 0));
}

}  // namespace

void add_to(TensorView target, ConstTensorView value) {
  apply(target, value, [](auto a, auto b) { return a + b; });
}

void subtract_from(TensorView target, ConstTensorView value) {
  apply(target, value, [](auto a, auto b) { return a - b; });
}

void write_share(TensorView target, ConstTensorView total, int replica, int replicas) {
  visit_dtype(target.dtype, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      throw_error(Code::invalid_argument, "assign: bool has no sum that could be spread over replicas");
    } else {
      using Sum = sum_t<T>;
      T* const to = static_cast<T*>(target.data);
      const T* const from = static_cast<const T*>(total.data);
      const std::int64_t count = target.element_count();
      for (std::int64_t i = 0; i < count; ++i) {
        if constexpr (std::integral<T>) {
          to[i] = integer_share(from[i], replica, replicas);
        } else {
          to[i] = static_cast<T>(static_cast<Sum>(from[i]) / static_cast<Sum>(replicas));
        }
      }
    }
  });
}

}  // namespace lockstep::detail
