// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// From the replicas' trees to one tree with `PerReplica` leaves, and back. Types alone decide: every leaf T becomes
// PerReplica<T> even where all replicas hold the same value; what `stays_whole` (a variable) stays itself.

#pragma once

#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {
namespace detail {

template <class T>
struct is_distributed : std::bool_constant<is_distributed_values<T>> {};

template <class Tree>
inline constexpr bool has_distributed_leaf = any_leaf<std::remove_cvref_t<Tree>, is_distributed>::value;

/// Merges the trees `get(0) .. get(count - 1)`, whose leaves are moved away.
template <class Tree, class Get>
auto merge_trees(int count, int first_replica, const Get& get) {
  return combine<Tree>(count, get, [=]<class Leaf, class GetLeaf>(const GetLeaf& leaf) {
    if constexpr (stays_whole<Leaf>) {
      for (int i = 1; i < count; ++i) {
        if (!(leaf(i) == leaf(0))) throw_structure_differs("which variable is given", i);
      }
      return Leaf(leaf(0));
    } else {
      return PerReplica<Leaf>(count, first_replica, [&](int i) { return Leaf(std::move(leaf(i))); });
    }
  });
}

}  // namespace detail

/// What `merge_trees` makes of replicas' values of type Tree: `float` gives PerReplica<float>, a tuple a tuple of such.
template <class Tree>
using merged_t = decltype(detail::merge_trees<Tree>(1, 0, std::declval<Tree& (*)(int)>()));

/// The part of replica `local`: distributed leaves give their component, other leaves a copy of themselves. Local.
template <class Tree>
[[nodiscard]] auto local_part(const Tree& tree, int local) {
  return map_leaves(tree, [local]<class Leaf>(const Leaf& leaf) {
    if constexpr (detail::is_distributed<Leaf>::value) {
      return typename Leaf::value_type(leaf.component(local));
    } else {
      return Leaf(leaf);
    }
  });
}

namespace detail {

/// An argument of a step as replica `local` gets it, without a copy where no slicing is needed.
template <class Argument>
decltype(auto) argument_part(Argument& argument, int local) {
  using Plain = std::remove_const_t<Argument>;
  if constexpr (is_distributed<Plain>::value) {
    return argument.component(local);
  } else if constexpr (has_distributed_leaf<Plain>) {
    return local_part(std::as_const(argument), local);
  } else {
    return (argument);
  }
}

/// `value` as a list of this rank's parts, one per local replica; a value without distributed leaves gives one part.
template <class Tree>
auto local_parts(const Tree& tree) {
  int count = 1;
  for_each_leaf(tree, [&count]<class Leaf>(const Leaf& leaf) {
    if constexpr (is_distributed<Leaf>::value) count = leaf.size() > count ? leaf.size() : count;
  });
  std::vector<decltype(local_part(tree, 0))> parts;
  parts.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) parts.push_back(local_part(tree, i));
  return parts;
}

}  // namespace detail
}  // namespace lockstep
