// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arguments that a replica's step function gets, and the results that it returns.

#pragma once

#include <lockstep/context/run_options.hpp>
#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>
#include <lockstep/variables/variable.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::detail {

template <class... Args>
inline constexpr bool ends_with_options = false;
template <class First, class... Rest>
inline constexpr bool ends_with_options<First, Rest...> =
    std::same_as<std::remove_cvref_t<std::tuple_element_t<sizeof...(Rest), std::tuple<First, Rest...>>>, RunOptions>;

/// Returns `call(options, args...)`: if the last of `args` is RunOptions, it is `options`, and not an argument.
template <class Call, class... Args>
auto with_run_options(const Call& call, Args&... args) {
  if constexpr (ends_with_options<Args...>) {
    const auto all = std::tie(args...);
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      return call(std::get<sizeof...(k)>(all), std::get<k>(all)...);
    }(std::make_index_sequence<sizeof...(Args) - 1>{});
  } else {
    return call(RunOptions{}, args...);
  }
}

/// The part of `argument` that local replica `local` gets. Only a tree with distributed leaves (PerReplica or Mirrored)
/// is copied; in all other cases the result is a reference.
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

/// Part `local` of a tree: distributed leaves and variables are replaced by component `local`, other leaves are copied.
template <class Tree>
auto local_result(const Tree& tree, int local) {
  return map_leaves(tree, [local]<class Leaf>(const Leaf& leaf) {
    if constexpr (std::derived_from<Leaf, Variable>) {
      return leaf.component(leaf.component_count() == 1 ? 0 : local);
    } else {
      return local_part(leaf, local);
    }
  });
}

/// Number of parts of a Mirrored value or a variable: the number of components, which may differ from `replicas`.
template <class T>
int check_local_results(const Mirrored<T>& value, const LocalReplicas& /*replicas*/) {
  return value.size();
}
template <std::derived_from<Variable> V>
int check_local_results(const V& variable, const LocalReplicas& /*replicas*/) {
  return variable.component_count();
}
/// Returns the number of parts of a tree: the largest number of components of a leaf, at least 1. Throws
/// Error(invalid_argument) if a leaf was made for other replicas than `replicas`.
template <class Tree>
int check_local_results(const Tree& tree, const LocalReplicas& replicas) {
  constexpr ValueName name{"experimental_local_results", "the value"};
  int count = 1;
  for_each_leaf(tree, [&]<class Leaf>(const Leaf& leaf) {
    int components = 1;
    if constexpr (is_distributed<Leaf>::value) {
      check_replicas_of(leaf, replicas, name);
      components = leaf.size();
    } else if constexpr (std::derived_from<Leaf, Variable>) {
      components = leaf.component_count();
      if (components != 1 && components != replicas.count) throw_other_count(name, components, replicas);
    }
    count = components > count ? components : count;
  });
  return count;
}

/// For Strategy::experimental_local_results: all parts of `tree`, by local replica. A tree without components has one
/// part.
template <class Tree>
auto local_results(const Tree& tree, const LocalReplicas& replicas) {
  const int count = check_local_results(tree, replicas);
  std::vector<decltype(local_result(tree, 0))> parts;
  parts.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) parts.push_back(local_result(tree, i));
  return parts;
}

/// One result for each local replica. Replicas may write their results at the same time. Results of up to four replicas
/// are stored in the object, without an allocation.
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

/// Merges the results of the replicas `own` to one tree, and moves from them.
struct MergeOfResults {
  LocalReplicas own;

  template <class Result>
  auto operator()(ReplicaResults<Result>& results) const {
    return merge_trees<Result>(own.count, own.first, [&results](int i) -> Result& { return *results[i]; });
  }
};

}  // namespace lockstep::detail
