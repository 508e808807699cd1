// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/tree.hpp>

#include <concepts>
#include <type_traits>

namespace lockstep::detail {

inline void set_cpu(IndexedSlices& slices, Device device) noexcept {
  set_cpu(slices.values, device);
  set_cpu(slices.indices, device);
}

template <class Leaf>
struct has_device : std::bool_constant<std::same_as<Leaf, Tensor> || std::same_as<Leaf, IndexedSlices>> {};

/// Calls set_cpu for all tensors of `tree`, which is the result of a replica on `device`. A step function makes tensors
/// in host memory without naming a device; they belong to the replica's logical CPU. Costs nothing if `tree` has no
/// tensors.
template <class Tree>
void set_cpu_of_leaves([[maybe_unused]] Tree& tree, [[maybe_unused]] Device device) {
  if constexpr (any_leaf<Tree, has_device>::value) {
    for_each_leaf(tree, [device]<class Leaf>(Leaf& leaf) {
      if constexpr (has_device<Leaf>::value) set_cpu(leaf, device);
    });
  }
}

}  // namespace lockstep::detail
