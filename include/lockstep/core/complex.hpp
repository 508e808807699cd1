// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Complex numbers as tensors of real numbers. Not part of <lockstep/lockstep.hpp>, because <complex> is a large header.

#pragma once

#include <lockstep/core/tensor_view.hpp>

#include <complex>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

namespace lockstep {

/// std::complex<float> or std::complex<double>, possibly const.
template <class T>
concept ComplexNumber = std::same_as<std::remove_const_t<T>, std::complex<float>> ||
                        std::same_as<std::remove_const_t<T>, std::complex<double>>;

/// std::vector, std::array, std::span or a C array of complex numbers.
template <class R>
concept ComplexRange = requires(R& range) { std::span(range); } &&
                       ComplexNumber<typename decltype(std::span(std::declval<R&>()))::element_type>;

/// A view of n complex numbers as a tensor [n, 2] of f32 or f64: the real parts are at [i, 0], the imaginary parts at
/// [i, 1] (std::complex guarantees this layout). A TensorView, or a ConstTensorView if the numbers are const.
/// Collectives that move data move complex numbers through it, and ReduceOp::sum and ReduceOp::mean of it are those of
/// the complex numbers. ReduceOp::min, max and prod reduce real and imaginary parts apart, which gives no product of
/// complex numbers. Refers to the numbers of a named container or of a span, which must outlive every use of the view.
/// Local.
template <ComplexRange R>
  requires(std::is_lvalue_reference_v<R> || std::ranges::enable_borrowed_range<std::remove_cvref_t<R>>)
[[nodiscard]] auto view_as_real(R&& numbers) {
  const std::span range(numbers);
  using T = typename decltype(range)::element_type;
  using Real = typename T::value_type;
  using View = std::conditional_t<std::is_const_v<T>, ConstTensorView, TensorView>;
  return View{range.data(), dtype_of<Real>, Shape{static_cast<std::int64_t>(range.size()), 2}, Device{}};
}

/// The same of one number: a tensor [1, 2].
template <ComplexNumber T>
[[nodiscard]] auto view_as_real(T& number) {
  return view_as_real(std::span<T>(&number, 1));
}
template <ComplexNumber T>
void view_as_real(const T&& temporary) = delete;

}  // namespace lockstep
