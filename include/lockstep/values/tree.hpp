// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Trees of values. Inner nodes: tuple, pair, optional, variant, map and unordered_map (the mapped values), vector,
// list, deque and array whose elements are not element types, and aggregates that opt in through `tree_members`, nested
// to any depth. Everything else is a leaf, so a vector<float> is one leaf and a vector<Tensor> is a node;
// monostate and nullptr_t are nodes without leaves. Only types decide, never values.

#pragma once

#include <lockstep/values/detail/tree.hpp>

#include <tuple>
#include <type_traits>
#include <variant>

namespace lockstep {

/// Makes an aggregate an inner node:
///   template <> struct lockstep::tree_members<Metrics> {
///     static constexpr auto pointers = std::tuple(&Metrics::loss, &Metrics::count);
///   };
/// If a function changes the types of leaves, an aggregate becomes the std::tuple of its members; otherwise it stays
/// itself.
template <class T>
struct tree_members;

/// Whether slicing and merging of trees leaves T as it is, as for variables.
template <class T>
inline constexpr bool stays_whole = false;

/// Calls `fn(leaf)` for every leaf of `tree`, from left to right, depth first; a map in its own order of keys. Local.
template <class Tree, class Fn>
void for_each_leaf(Tree& tree, Fn&& fn) {
  constexpr auto kind = detail::node_kind<std::remove_const_t<Tree>>;
  if constexpr (kind == detail::NodeKind::leaf) {
    fn(tree);
  } else if constexpr (kind == detail::NodeKind::tuple) {
    std::apply([&](auto&... children) { (for_each_leaf(children, fn), ...); }, tree);
  } else if constexpr (kind == detail::NodeKind::aggregate) {
    detail::with_members(tree, [&](auto&... children) { (for_each_leaf(children, fn), ...); });
  } else if constexpr (kind == detail::NodeKind::optional) {
    if (tree) for_each_leaf(*tree, fn);
  } else if constexpr (kind == detail::NodeKind::variant) {
    std::visit([&fn](auto& child) { for_each_leaf(child, fn); }, tree);
  } else if constexpr (kind == detail::NodeKind::nothing) {
  } else if constexpr (kind == detail::NodeKind::map) {
    for (auto& entry : tree) for_each_leaf(entry.second, fn);
  } else {
    for (auto& child : tree) for_each_leaf(child, fn);
  }
}

/// A tree of the same structure whose leaves are `fn(leaf)`. Local.
template <class Tree, class Fn>
[[nodiscard]] auto map_leaves(Tree& tree, Fn&& fn) {
  return detail::combine<Tree>(
      // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): callers own the argument
      1, [&tree](int) -> Tree& { return tree; }, [&fn]<class Leaf, class Get>(const Get& get) { return fn(get(0)); });
}

}  // namespace lockstep
