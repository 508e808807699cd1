// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Conversion of the trees of several replicas to one tree with `PerReplica` leaves, and back. The conversion depends on
// types only: every leaf T becomes PerReplica<T>, even if all replicas have equal values; an aggregate with
// `tree_members` becomes one PerReplica<T>, in which the members keep their names; a leaf whose type has `stays_whole`
// (a variable) is not changed.

#pragma once

#include <lockstep/values/detail/merge.hpp>
#include <lockstep/values/tree.hpp>

#include <utility>

namespace lockstep {

/// Type of the merge of trees of type Tree: `float` gives PerReplica<float>, a tuple gives a tuple of merged types, an
/// aggregate A gives PerReplica<A>.
template <class Tree>
using merged_t = decltype(detail::merge_trees<Tree>(1, 0, std::declval<Tree& (*)(int)>()));

/// The part of `tree` for replica `local`: PerReplica and Mirrored leaves become component `local`, other leaves are
/// copied. Local.
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

}  // namespace lockstep
