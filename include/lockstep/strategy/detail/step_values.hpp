// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arguments that a replica's step function gets, and the results that it returns.

#pragma once

#include <lockstep/values/merge.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Argument of a step for replica `local`, without a copy if no slicing is needed.
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

/// This rank's parts of `tree`, one per local replica; one part if no leaf is distributed.
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

/// One result of each local replica; replicas write them at the same time. Results of up to four replicas are stored
/// inside, without an allocation.
template <class T>
class ReplicaResults {
 public:
  explicit ReplicaResults(int count) : more_(count > few ? static_cast<std::size_t>(count) : 0) {}

  [[nodiscard]] std::optional<T>& operator[](int local) noexcept {
    const auto index = static_cast<std::size_t>(local);
    return more_.empty() ? inside_[index] : more_[index];
  }

 private:
  static constexpr int few = 4;
  std::array<std::optional<T>, few> inside_{};
  std::vector<std::optional<T>> more_;
};

}  // namespace lockstep::detail
