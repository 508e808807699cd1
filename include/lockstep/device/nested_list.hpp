// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Lists in braces, as arguments of functions that know the element type: `v.assign({{1, 2}, {3, 4}})`.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/device/tensor.hpp>

#include <concepts>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

/// A list in braces: of numbers, or of such lists, to any depth. Numbers are converted to T; the conversion of a
/// floating-point number to an integer does not compile. Throws Error(invalid_argument) if the lists of one list have
/// different lengths, and if an integer is out of the range of T. Cost: an allocation for each number; for long lists,
/// use a vector.
template <Element T>
class NestedList {
 public:
  template <class Number>
    requires(std::is_arithmetic_v<Number> || std::same_as<Number, T>)
  // NOLINTNEXTLINE(google-explicit-constructor): a number is an element of a list in braces
  NestedList(Number number) : tensor_(Tensor::scalar(converted(number))) {}
  NestedList(std::initializer_list<NestedList> parts) : tensor_(stacked(parts)) {}

  /// The elements; the shape has one axis for each depth of braces.
  [[nodiscard]] const Tensor& tensor() const noexcept { return tensor_; }

 private:
  template <class Number>
  static T converted(Number number) {
    static_assert(!std::is_floating_point_v<Number> || !std::is_integral_v<T>,
                  "a floating-point number in a list of integers would be truncated; round it, and cast it to the "
                  "element type");
    if constexpr (std::same_as<Number, T>) {
      return number;
    } else if constexpr (std::is_arithmetic_v<T>) {
      if constexpr (std::is_integral_v<T> && std::is_integral_v<Number>) {
        if (!is_in_range(number)) detail::throw_number_out_of_range(dtype_of<T>);
      }
      return static_cast<T>(number);
    } else {
      return T(static_cast<float>(number));
    }
  }
  template <std::integral Number>
  static bool is_in_range(Number number) {
    if constexpr (std::same_as<Number, bool>) {
      return true;
    } else if constexpr (std::same_as<T, bool>) {
      return number == 0 || number == 1;
    } else {
      return std::in_range<T>(+number);  // promoted, because in_range refuses characters
    }
  }
  static Tensor stacked(std::initializer_list<NestedList> parts) {
    if (parts.size() == 0) return Tensor(dtype_of<T>, Shape{0});
    std::vector<Tensor> tensors;
    for (const NestedList& part : parts) tensors.push_back(part.tensor_);
    return detail::stacked(tensors);
  }

  Tensor tensor_;
};

}  // namespace lockstep
