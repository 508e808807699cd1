// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The argument types of calls on one tensor. An argument is a range of elements, one element, or a view.

#pragma once

#include <lockstep/core/tensor_view.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace lockstep {

/// A contiguous range of an element type: std::vector (but not of bool), std::array, std::span, a C array.
template <class R>
concept ElementRange =
    requires(R& range) { std::span(range); } && Element<typename decltype(std::span(std::declval<R&>()))::element_type>;

/// A range whose elements a call may use after the call has returned: a named container, or a span.
template <class R>
concept LastingElementRange =
    ElementRange<R> && (std::is_lvalue_reference_v<R> || std::ranges::enable_borrowed_range<std::remove_cvref_t<R>>);

/// The tensor that a call reads. Refers to elements that the caller owns. Value type.
class ConstElements {
 public:
  // NOLINTBEGIN(google-explicit-constructor): calls take ranges, elements and views as they are
  template <LastingElementRange R>
  ConstElements(R&& values) : view_(of(std::span(values))) {}
  template <Element T>
  ConstElements(T& value) : view_(of(std::span(&value, 1))) {}
  ConstElements(const ConstTensorView& view) : view_(view) {}
  ConstElements(const TensorView& view) : view_(view) {}
  // NOLINTEND(google-explicit-constructor)
  [[nodiscard]] const ConstTensorView& view() const noexcept { return view_; }

 private:
  template <class T, std::size_t extent>
  static ConstTensorView of(std::span<T, extent> values) {
    return view_of(std::span<const T>(values));
  }
  ConstTensorView view_;
};

/// The tensor that a call writes, or reads and writes. Refers to elements that the caller owns. Value type.
class Elements {
 public:
  // NOLINTBEGIN(google-explicit-constructor): as ConstElements
  template <LastingElementRange R>
    requires(!std::is_const_v<typename decltype(std::span(std::declval<R&>()))::element_type>)
  Elements(R&& values) : view_(of(std::span(values))) {}
  template <Element T>
    requires(!std::is_const_v<T>)
  Elements(T& value) : view_(of(std::span(&value, 1))) {}
  Elements(const TensorView& view) : view_(view) {}
  // NOLINTEND(google-explicit-constructor)
  [[nodiscard]] const TensorView& view() const noexcept { return view_; }

 private:
  template <class T, std::size_t extent>
  static TensorView of(std::span<T, extent> values) {
    return view_of(std::span<T>(values));
  }
  TensorView view_;
};

}  // namespace lockstep
