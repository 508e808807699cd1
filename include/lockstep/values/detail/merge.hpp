// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <type_traits>
#include <utility>

namespace lockstep::detail {

template <class T>
struct is_distributed : std::bool_constant<is_distributed_values<T>> {};

template <class Tree>
inline constexpr bool has_distributed_leaf = any_leaf<std::remove_cvref_t<Tree>, is_distributed>::value;

/// Makes a leaf of the merged tree from the leaves of the trees, and moves from these. An aggregate is merged whole, so
/// that its members keep their names.
struct MergedLeaf {
  using whole_aggregates = void;
  int count;
  int first_replica;

  template <class Leaf, class GetLeaf>
  auto operator()(const GetLeaf& leaf) const {
    if constexpr (stays_whole<Leaf>) {
      for (int i = 1; i < count; ++i) {
        if (!(leaf(i) == leaf(0))) throw_structure_differs("which variable is given", i);
      }
      return Leaf(leaf(0));
    } else {
      return PerReplica<Leaf>(count, first_replica, [&](int i) { return Leaf(std::move(leaf(i))); });
    }
  }
};

/// Merges the trees `get(0)` to `get(count - 1)` to one tree, and moves from their leaves.
template <class Tree, class Get>
auto merge_trees(int count, int first_replica, const Get& get) {
  return combine<Tree>(count, get, MergedLeaf{count, first_replica});
}

}  // namespace lockstep::detail
