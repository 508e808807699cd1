// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The element types of a Dataset: trees of tensors whose structure is given by the type.

#pragma once

#include <lockstep/device/tensor.hpp>
#include <lockstep/input/pipeline.hpp>
#include <lockstep/values/tree.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace input {

/// Number of tensors in a T; 0 if T is not an element type.
template <class T>
struct leaf_count : std::integral_constant<std::size_t, 0> {};
template <>
struct leaf_count<Tensor> : std::integral_constant<std::size_t, 1> {};

template <class... Child>
inline constexpr std::size_t leaf_sum = (sizeof...(Child) > 0 && (... && (leaf_count<Child>::value > 0)))
                                            ? (std::size_t{0} + ... + leaf_count<Child>::value)
                                            : 0;

template <class... Child>
struct leaf_count<std::tuple<Child...>> : std::integral_constant<std::size_t, leaf_sum<Child...>> {};
template <class A, class B>
struct leaf_count<std::pair<A, B>> : std::integral_constant<std::size_t, leaf_sum<A, B>> {};
template <class Child, std::size_t n>
struct leaf_count<std::array<Child, n>> : std::integral_constant<std::size_t, n * leaf_count<Child>::value> {};
template <class T>
  requires requires { tree_members<T>::pointers; }
struct leaf_count<T> {
  static constexpr std::size_t value = []<class... Member>(std::tuple<Member T::*...>) {
    return leaf_sum<Member...>;
  }(tree_members<T>::pointers);
};

}  // namespace input

/// An element tree is a Tensor; a std::tuple, std::pair or std::array of element trees; or an aggregate of element
/// trees that opts in through tree_members.
template <class T>
concept ElementTree = std::default_initializable<T> && input::leaf_count<T>::value > 0;

namespace input {

/// The tensors of `element`, from left to right. The returned tensors share memory with `element`, except that tensors
/// on GPUs are copied to host memory, because datasets work in host memory.
template <ElementTree T>
[[nodiscard]] Leaves leaves_of(const T& element) {
  Leaves leaves;
  leaves.reserve(leaf_count<T>::value);
  for_each_leaf(element, [&](const Tensor& leaf) {
    leaves.push_back(leaf.device().kind == DeviceKind::cpu ? leaf : leaf.to(Device{}));
  });
  return leaves;
}

/// The element that consists of the tensors `leaves`. The tensors are moved out of `leaves`. `leaves` must have
/// leaf_count<T> tensors.
template <ElementTree T>
[[nodiscard]] T element_of(Leaves&& leaves) {
  T element{};
  auto next = leaves.begin();
  for_each_leaf(element, [&](Tensor& leaf) { leaf = std::move(*next++); });
  return element;
}

}  // namespace input
}  // namespace lockstep
