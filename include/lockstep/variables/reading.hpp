// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on the values of variables, as in `v * 2 + 1`, `v + w` and `v * tensor`.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/float16.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/arithmetic.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/variables/typed_variable.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {
namespace detail {

/// Throws Error(failed_precondition): a reading with `count` elements is used as one number.
[[noreturn]] LOCKSTEP_API void throw_not_one_number(std::size_t count);
/// Returns the shape of `a op b`. Throws Error(invalid_argument) unless the shapes are equal or one operand is a
/// number.
[[nodiscard]] LOCKSTEP_API Shape arithmetic_shape(const Shape& a, const Shape& b);
/// Throws Error(invalid_argument): an integer is divided by zero.
[[noreturn]] LOCKSTEP_API void throw_divided_by_zero();
LOCKSTEP_API std::ostream& print_elements(std::ostream& out, ConstTensorView view);

}  // namespace detail

/// The elements that a variable had when it was read, or the result of arithmetic on such elements. Value type; owns
/// its elements. A Reading can be used as a tensor: assigned to a variable, reduced, or returned from a step. A Reading
/// with one element converts to T.
template <Element T>
  requires(!std::same_as<T, bool>)
class Reading {
 public:
  using value_type = T;

  /// `elements` has as many elements as `shape`.
  Reading(std::vector<T> elements, const Shape& shape) : elements_(std::move(elements)), shape_(shape) {}

  [[nodiscard]] const std::vector<T>& elements() const noexcept { return elements_; }
  [[nodiscard]] std::vector<T>& elements() noexcept { return elements_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  /// The only element. Throws Error(failed_precondition) if the number of elements is not 1.
  [[nodiscard]] T value() const {
    if (elements_.size() != 1) detail::throw_not_one_number(elements_.size());
    return elements_.front();
  }
  // NOLINTNEXTLINE(google-explicit-constructor): a reading of one number is a number
  [[nodiscard]] operator T() const { return value(); }

  friend bool operator==(const Reading& a, const Reading& b) = default;
  /// Whether `a` has exactly one element, and this element equals `b`.
  friend bool operator==(const Reading& a, T b) { return a.elements_.size() == 1 && a.elements_.front() == b; }
  friend bool operator==(const Reading& a, const std::vector<T>& b) { return a.elements_ == b; }

 private:
  std::vector<T> elements_;
  Shape shape_;
};

template <Element T>
struct tensor_traits<Reading<T>> {
  static TensorView view(Reading<T>& value) { return {value.elements().data(), dtype_of<T>, value.shape(), Device{}}; }
  static ConstTensorView view(const Reading<T>& value) {
    return {value.elements().data(), dtype_of<T>, value.shape(), Device{}};
  }
};

template <Element T>
std::ostream& operator<<(std::ostream& out, const Reading<T>& reading) {
  return detail::print_elements(out, tensor_traits<Reading<T>>::view(reading));
}

/// Returns the value of `variable`. The table of class Variable says which copy or aggregate is read. Collective if the
/// value is an aggregate.
template <Element T>
[[nodiscard]] Reading<T> reading(const TypedVariable<T>& variable) {
  return Reading<T>(variable.values(), variable.shape());
}

namespace detail {

template <class T>
Reading<T> element_of_reading(const Reading<T>&);
template <class T>
Reading<T> element_of_reading(const TypedVariable<T>&);
/// A typed variable or a Reading.
template <class X>
concept Readable = requires(const X& x) { detail::element_of_reading(x); };

template <class X>
struct reading_element {};
template <Readable X>
struct reading_element<X> {
  using type = typename decltype(element_of_reading(std::declval<const X&>()))::value_type;
};

/// A number type that converts to T. Floating-point types do not convert to integers.
template <class X, class T>
concept NumberFor =
    std::same_as<X, T> || (std::is_arithmetic_v<X> && (!std::is_integral_v<T> || std::is_integral_v<X>));

template <class X, class T>
concept OperandFor = NumberFor<X, T> || std::same_as<X, std::vector<T>> ||
                     requires { requires std::same_as<typename reading_element<X>::type, T>; };

/// Operands of arithmetic: at least one operand is a variable or a Reading. The other operand is a variable or a
/// Reading of the same element type, a number, or a vector.
template <class A, class B>
concept ReadingArithmetic = (Readable<A> && OperandFor<B, typename reading_element<A>::type>) ||
                            (Readable<B> && OperandFor<A, typename reading_element<B>::type>);

template <class T, class X>
Reading<T> as_reading(const X& x) {
  if constexpr (std::derived_from<X, Variable>) {
    return reading<T>(x);
  } else if constexpr (Readable<X>) {
    return x;
  } else if constexpr (std::same_as<X, std::vector<T>>) {
    return Reading<T>(x, Shape{static_cast<std::int64_t>(x.size())});
  } else if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
    return Reading<T>({T(static_cast<float>(x))}, Shape{});
  } else {
    return Reading<T>({static_cast<T>(x)}, Shape{});
  }
}

/// Applies `op` to two elements: 16-bit floats are computed in f32, integers wrap.
template <class T, class Op>
T apply_to_elements(T a, T b, Op op) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
    return T(op(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(op(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
  } else {
    return op(a, b);
  }
}

template <class T>
T quotient(T a, T b) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
    return T(static_cast<float>(a) / static_cast<float>(b));
  } else if constexpr (std::integral<T>) {
    if (b == T{0}) throw_divided_by_zero();
    if constexpr (std::is_signed_v<T>) {
      // the lowest value divided by -1 wraps
      if (b == T{-1}) return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(a));
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

template <class A, class B, class Op>
auto combine_readings(const A& a, const B& b, Op op) {
  using T = typename reading_element<std::conditional_t<Readable<A>, A, B>>::type;
  const Reading<T> left = as_reading<T>(a);
  const Reading<T> right = as_reading<T>(b);
  const Shape shape = arithmetic_shape(left.shape(), right.shape());
  std::vector<T> result(static_cast<std::size_t>(shape.element_count()));
  const std::size_t left_step = left.shape() == shape ? 1 : 0;
  const std::size_t right_step = right.shape() == shape ? 1 : 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = op(left.elements()[i * left_step], right.elements()[i * right_step]);
  }
  return Reading<T>(std::move(result), shape);
}

}  // namespace detail

/// Computes element by element; a single number is combined with every element. Integers wrap, and their quotients are
/// truncated towards zero. Collective if the value of a variable is an aggregate. Throws Error(invalid_argument) if
/// shapes differ, and for the division of an integer by zero.
template <class A, class B>
  requires detail::ReadingArithmetic<A, B>
[[nodiscard]] auto operator+(const A& a, const B& b) {
  return detail::combine_readings(
      a, b, []<class T>(T x, T y) { return detail::apply_to_elements(x, y, [](auto u, auto v) { return u + v; }); });
}
template <class A, class B>
  requires detail::ReadingArithmetic<A, B>
[[nodiscard]] auto operator-(const A& a, const B& b) {
  return detail::combine_readings(
      a, b, []<class T>(T x, T y) { return detail::apply_to_elements(x, y, [](auto u, auto v) { return u - v; }); });
}
template <class A, class B>
  requires detail::ReadingArithmetic<A, B>
[[nodiscard]] auto operator*(const A& a, const B& b) {
  return detail::combine_readings(
      a, b, []<class T>(T x, T y) { return detail::apply_to_elements(x, y, [](auto u, auto v) { return u * v; }); });
}
template <class A, class B>
  requires detail::ReadingArithmetic<A, B>
[[nodiscard]] auto operator/(const A& a, const B& b) {
  return detail::combine_readings(a, b, []<class T>(T x, T y) { return detail::quotient(x, y); });
}

namespace detail {

/// An operand of arithmetic with a tensor: a variable of any element type, or a Reading.
template <class X>
concept ReadAsTensor = std::derived_from<X, Variable> || Readable<X>;

/// The value of `x`, on `device`.
template <ReadAsTensor X>
Tensor tensor_of(const X& x, Device device) {
  if constexpr (std::derived_from<X, Variable>) {
    return x.read().to(device);
  } else {
    const ConstTensorView view = tensor_traits<X>::view(x);
    Tensor result = Tensor::uninitialized(view.dtype, view.shape, nullptr, device);
    result.copy_from(view);
    return result;
  }
}

}  // namespace detail

/// Arithmetic of a variable or a Reading with a tensor is arithmetic of tensors (see device/arithmetic.hpp): the value
/// is copied to the device of the tensor, and the result is a Tensor there. Collective if the value of a variable is an
/// aggregate. Throws as Variable::read and the arithmetic of tensors.
template <detail::ReadAsTensor X>
[[nodiscard]] Tensor operator+(const X& a, const Tensor& b) {
  return detail::tensor_of(a, b.device()) + b;
}
template <detail::ReadAsTensor X>
[[nodiscard]] Tensor operator+(const Tensor& a, const X& b) {
  return a + detail::tensor_of(b, a.device());
}
template <detail::ReadAsTensor X>
[[nodiscard]] Tensor operator-(const X& a, const Tensor& b) {
  return detail::tensor_of(a, b.device()) - b;
}
template <detail::ReadAsTensor X>
[[nodiscard]] Tensor operator-(const Tensor& a, const X& b) {
  return a - detail::tensor_of(b, a.device());
}
template <detail::ReadAsTensor X>
[[nodiscard]] Tensor operator*(const X& a, const Tensor& b) {
  return detail::tensor_of(a, b.device()) * b;
}
template <detail::ReadAsTensor X>
[[nodiscard]] Tensor operator*(const Tensor& a, const X& b) {
  return a * detail::tensor_of(b, a.device());
}
template <detail::ReadAsTensor X>
[[nodiscard]] Tensor operator/(const X& a, const Tensor& b) {
  return detail::tensor_of(a, b.device()) / b;
}
template <detail::ReadAsTensor X>
[[nodiscard]] Tensor operator/(const Tensor& a, const X& b) {
  return a / detail::tensor_of(b, a.device());
}

}  // namespace lockstep
