// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Trees of values. What is a leaf depends on the type alone, and is the same for all functions. The inner nodes are:
// tuple, pair, optional and variant; map and unordered_map, whose children are the mapped values; list and deque (and
// containers of other libraries that have the members of these four);
// vector and array, unless their elements are element types of tensors; and aggregates with a specialisation of
// `tree_members`. Nodes may be nested to any depth. monostate and nullptr_t are nodes without leaves. Objects of all
// other types are leaves. For example, a vector<float> is one leaf, but a vector<Tensor> is an inner node.

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
/// A step that returns an aggregate returns it whole, as PerReplica<Metrics>; a reduction of that value is a Metrics.
/// If a function on trees changes the types of leaves, the result has the std::tuple of the members in place of the
/// aggregate. If the types do not change, the result has the aggregate type.
template <class T>
struct tree_members;

/// Whether a leaf of type T is not changed when the trees of several replicas are merged to one tree, or when one tree
/// is divided among replicas (see merge.hpp). True for variables.
template <class T>
inline constexpr bool stays_whole = false;

/// Calls `fn(leaf)` for every leaf of `tree`, left to right, depth first; entries of a map in the map's order, those of
/// an unordered_map in the order of the keys. Local.
template <class Tree, class Fn>
void for_each_leaf(Tree& tree, Fn&& fn) {
  constexpr auto kind = detail::node_kind<std::remove_const_t<Tree>>;
  if constexpr (kind == detail::NodeKind::leaf) {
    fn(tree);
  } else if constexpr (kind == detail::NodeKind::tuple) {
    std::apply([&](auto&... children) { (for_each_leaf(children, fn), ...); }, tree);
  } else if constexpr (kind == detail::NodeKind::members) {
    for_each_leaf(tree.children, fn);
  } else if constexpr (kind == detail::NodeKind::aggregate) {
    detail::with_members(tree, [&](auto&... children) { (for_each_leaf(children, fn), ...); });
  } else if constexpr (kind == detail::NodeKind::optional) {
    if (tree) for_each_leaf(*tree, fn);
  } else if constexpr (kind == detail::NodeKind::variant) {
    std::visit([&fn](auto& child) { for_each_leaf(child, fn); }, tree);
  } else if constexpr (kind == detail::NodeKind::nothing) {
  } else if constexpr (kind == detail::NodeKind::map) {
    detail::for_each_entry(tree, [&fn](auto& entry) { for_each_leaf(entry.second, fn); });
  } else {
    for (auto& child : tree) for_each_leaf(child, fn);
  }
}

/// Returns a tree of the same structure, in which each leaf is replaced by `fn(leaf)`. Local.
template <class Tree, class Fn>
[[nodiscard]] auto map_leaves(Tree& tree, Fn&& fn) {
  return detail::combine<Tree>(
      // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): callers own the argument
      1, [&tree](int) -> Tree& { return tree; }, [&fn]<class Leaf, class Get>(const Get& get) { return fn(get(0)); });
}

}  // namespace lockstep
