// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "conformance/tensor_math.hpp"

#include <cstddef>
#include <stdexcept>

namespace lockstep::conformance {
namespace {

template <class T>
Number widened(T value) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
    return static_cast<Number>(static_cast<float>(value));
  } else {
    return static_cast<Number>(value);
  }
}

template <class T>
T narrowed(Number value) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

Tensor combined(const Tensor& a, const Tensor& b, const std::function<Number(Number, Number)>& fn) {
  if (b.element_count() != a.element_count() && b.element_count() != 1)
    throw std::invalid_argument("operands of different sizes");
  Tensor result(a.dtype(), a.shape());
  const Tensor a_here = a.to(Device{});
  const Tensor b_here = b.to(Device{});
  detail::visit_dtype(a.dtype(), [&]<class A>() {
    detail::visit_dtype(b.dtype(), [&]<class B>() {
      const auto left = a_here.elements<A>();
      const auto right = b_here.elements<B>();
      const auto to = result.elements<A>();
      for (std::size_t i = 0; i < left.size(); ++i)
        to[i] = narrowed<A>(fn(widened(left[i]), widened(right[right.size() == 1 ? 0 : i])));
    });
  });
  return result.to(a.device());
}

Tensor sum_of(const Tensor& a) {
  Tensor result(a.dtype(), Shape{});
  detail::visit_dtype(a.dtype(), [&]<class T>() {
    const Tensor here = a.to(Device{});
    Number sum = 0;
    for (const T element : here.elements<T>()) sum += widened(element);
    result.elements<T>().front() = narrowed<T>(sum);
  });
  return result.to(a.device());
}

Number number_in(const Tensor& a) {
  if (a.element_count() != 1) throw std::invalid_argument("a tensor of several elements cannot be used as a number");
  const Tensor here = a.to(Device{});
  return detail::visit_dtype(a.dtype(), [&]<class T>() { return widened(here.elements<T>().front()); });
}

}  // namespace lockstep::conformance
