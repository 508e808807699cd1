// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets of the rows of arrays in memory.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/values/tree.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {
namespace input {

/// A tensor whose row i is `parts[i]`. Throws Error(invalid_argument) if `parts` is empty, or if the parts differ in
/// dtype or shape.
[[nodiscard]] LOCKSTEP_API Tensor stacked(const std::vector<Tensor>& parts);

template <class T>
inline constexpr bool is_map_by_string = false;
template <class Child, class Less>
inline constexpr bool is_map_by_string<std::map<std::string, Child, Less>> = true;

/// Converts each array in the tree `arrays` to a Tensor. The result is an ElementTree without lists.
template <class Arrays>
[[nodiscard]] auto tensors_of(const Arrays& arrays) {
  constexpr auto kind = detail::node_kind<Arrays>;
  if constexpr (ElementTree<Arrays> && leaf_count<Arrays>::value != by_keys) {
    return arrays;
  } else if constexpr (TensorLike<Arrays>) {
    const ConstTensorView view = tensor_traits<Arrays>::view(arrays);
    Tensor copy = Tensor::uninitialized(view.dtype, view.shape);
    copy.copy_from(view);
    return copy;
  } else if constexpr (kind == detail::NodeKind::sequence) {
    std::vector<Tensor> parts;
    for (const auto& part : arrays) {
      static_assert(std::same_as<decltype(tensors_of(part)), Tensor>,
                    "the elements of a list must be arrays or lists of arrays");
      parts.push_back(tensors_of(part));
    }
    return stacked(parts);
  } else if constexpr (kind == detail::NodeKind::array) {
    return std::apply(
        [](const auto&... child) {
          return std::array<std::common_type_t<decltype(tensors_of(child))...>, sizeof...(child)>{tensors_of(child)...};
        },
        arrays);
  } else if constexpr (kind == detail::NodeKind::map) {
    static_assert(is_map_by_string<Arrays>, "a map of arrays must be a std::map, and its keys must be std::string");
    using Child = decltype(tensors_of(arrays.begin()->second));
    std::map<std::string, Child> result;
    for (const auto& [key, child] : arrays) result.emplace_hint(result.end(), key, tensors_of(child));
    return result;
  } else if constexpr (detail::is_pair<Arrays>) {
    return std::pair{tensors_of(arrays.first), tensors_of(arrays.second)};
  } else if constexpr (kind == detail::NodeKind::tuple) {
    return std::apply(
        [](const auto&... child) { return std::tuple<decltype(tensors_of(child))...>{tensors_of(child)...}; }, arrays);
  } else {
    static_assert(kind == detail::NodeKind::aggregate,
                  "arrays must be a Tensor, a vector, array or span of numbers, a list of arrays of one shape, or a "
                  "tuple, pair, array, map or opted-in aggregate of these");
    return detail::with_members(
        arrays, [](const auto&... child) { return std::tuple<decltype(tensors_of(child))...>{tensors_of(child)...}; });
  }
}

}  // namespace input

/// A dataset whose element i consists of row i of every array in `arrays`. An array is a Tensor, or a vector or span of
/// numbers. `arrays` is one array; or a tuple, pair, std::array, std::map from std::string, or opted-in aggregate of
/// arrays. If an aggregate has members other than Tensors, the elements are tuples of the members' rows. A list of
/// arrays (vector, list, deque) is stacked to one array, as in TensorFlow. Local. Tensors are shared; other arrays are
/// copied. Throws Error(invalid_argument) if an array is a scalar, if the arrays differ in length, or if the arrays of
/// a list differ in dtype or shape.
template <class Arrays>
[[nodiscard]] auto array_dataset(const Arrays& arrays) {
  using Element = decltype(input::tensors_of(arrays));
  return Dataset<Element>::from_tensor_slices(input::tensors_of(arrays));
}

}  // namespace lockstep
