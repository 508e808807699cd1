// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The customization point that makes a user's type a leaf of a value tree (values/tree.hpp). A specialisation defines
// how an object is viewed as a tensor: `static TensorView view(T&)` and `static ConstTensorView view(const T&)`.

#pragma once

#include <lockstep/core/tensor_view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace lockstep {

/// Not defined for types that are not leaves.
template <class T>
struct tensor_traits;

/// An arithmetic scalar or a 16-bit float is a tensor of rank 0.
template <Element T>
struct tensor_traits<T> {
  static TensorView view(T& value) { return {&value, dtype_of<T>, Shape{}, Device{}}; }
  static ConstTensorView view(const T& value) { return {&value, dtype_of<T>, Shape{}, Device{}}; }
};

/// A vector of elements has one axis. `std::vector<bool>` is not a leaf: its elements have no addresses.
template <Element T, class Allocator>
  requires(!std::same_as<T, bool>)
struct tensor_traits<std::vector<T, Allocator>> {
  static TensorView view(std::vector<T, Allocator>& value) { return view_of(std::span<T>(value.data(), value.size())); }
  static ConstTensorView view(const std::vector<T, Allocator>& value) {
    return view_of(std::span<const T>(value.data(), value.size()));
  }
};

/// A std::array of elements has one axis.
template <Element T, std::size_t n>
struct tensor_traits<std::array<T, n>> {
  static TensorView view(std::array<T, n>& value) { return view_of(std::span<T>(value.data(), value.size())); }
  static ConstTensorView view(const std::array<T, n>& value) {
    return view_of(std::span<const T>(value.data(), value.size()));
  }
};

/// A span does not own its elements. Writing through a span changes the elements, even if the span itself is const.
template <Element T>
  requires(!std::is_const_v<T>)
struct tensor_traits<std::span<T>> {
  static TensorView view(const std::span<T>& value) { return view_of(value); }
};

/// The view of a view is the view itself.
template <>
struct tensor_traits<TensorView> {
  static TensorView view(const TensorView& value) { return value; }
};

/// A type that has a tensor_traits specialisation.
template <class T>
concept TensorLike = requires(std::remove_cvref_t<T>& value) {
  { tensor_traits<std::remove_cvref_t<T>>::view(value) } -> std::convertible_to<TensorView>;
};

/// Whether a T only refers to elements that are stored elsewhere, so that copying the T copies no elements.
template <class T>
inline constexpr bool refers_to_elements = false;
template <class T>
inline constexpr bool refers_to_elements<std::span<T>> = true;
template <>
inline constexpr bool refers_to_elements<TensorView> = true;

}  // namespace lockstep
