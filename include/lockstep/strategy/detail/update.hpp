// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Templates for `StrategyExtended::update` and `update_non_slot`: one call per copy, and the merge of the results.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/strategy/detail/step_values.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

class Strategy;

namespace detail {

/// While an UpdateScope exists, this thread is in update context of copy `local`. If local replica `local` computes on
/// a GPU, this GPU is CUDA's current device.
class LOCKSTEP_API UpdateScope {
 public:
  UpdateScope(Strategy& strategy, int local);

 private:
  SavedContext saved_;
  CurrentGpu gpu_;
};

enum class Grouping : std::uint8_t { grouped, ungrouped };

/// Arguments of the call for one copy: trees of components (see argument_part) by value, all other arguments by
/// reference.
template <class... Args>
using ArgumentParts = std::tuple<decltype(argument_part(std::declval<Args&>(), 0))...>;

template <class F, class VariableType, class... Args>
inline constexpr bool is_updater =
    std::is_invocable_v<F, const VariableType&,
                        decltype(argument_part(std::declval<std::remove_reference_t<Args>&>(), 0))...>;

/// Whether F is a function of the older form, which takes the elements of the copy in place of the variable.
template <class F, class VariableType, class... Args>
inline constexpr bool takes_component =
    std::is_invocable_v<F, decltype(std::declval<const VariableType&>().updatable_component()),
                        decltype(argument_part(std::declval<std::remove_reference_t<Args>&>(), 0))...>;

/// `fn`, which takes the elements of a copy, as a function that takes the variable.
template <class VariableType, class F>
auto updater_of_component(F& fn) {
  return [&fn]<class... Parts>(const VariableType& variable, Parts&&... parts) -> decltype(auto) {
    return detail::invoke(fn, variable.updatable_component(), std::forward<Parts>(parts)...);
  };
}

template <class F, class VariableType, class... Args>
constexpr void require_updater() {
  static_assert(
      is_updater<F, VariableType, Args...>,
      "update: the function must be callable as fn(variable, args...), where variable is the const variable of this "
      "call, and distributed arguments come as one component");
}

/// Calls `fn(first..., parts...)`; trees of components in `parts` are moved.
template <class F, class Parts, class... First>
decltype(auto) call_with_parts(F& fn, Parts& parts, First&&... first) {
  return [&]<std::size_t... k>(std::index_sequence<k...>) -> decltype(auto) {
    return detail::invoke(fn, std::forward<First>(first)...,
                          std::forward<std::tuple_element_t<k, Parts>>(std::get<k>(parts))...);
  }(std::make_index_sequence<std::tuple_size_v<Parts>>{});
}

/// Wraps the result of a merge function, so that every replica gets all components of distributed values.
template <class T>
struct Whole {
  T value;
};

/// Makes a leaf of the merged results from the leaves of the results of all copies, and moves from these.
template <Grouping grouping>
struct GroupedLeaf {
  using whole_aggregates = void;
  int count;

  template <class Leaf, class GetLeaf>
  auto operator()(const GetLeaf& leaf) const {
    if constexpr (grouping == Grouping::ungrouped) {
      std::vector<Leaf> list;
      for (int i = 0; i < count; ++i) list.push_back(std::move(leaf(i)));
      return list;
    } else if constexpr (stays_whole<Leaf>) {
      return Leaf(leaf(0));
    } else {
      return Mirrored<Leaf>(count, [&](int i) { return Leaf(std::move(leaf(i))); });
    }
  }
};

/// Merges the results of all copies to one tree, and moves the leaves of `results`. Each leaf T becomes Mirrored<T> if
/// grouped, and vector<T> if ungrouped; an aggregate is one leaf, as in merge_trees. If grouped, a leaf that is a
/// variable remains that variable.
template <Grouping grouping, class Result>
auto group_results(std::vector<std::optional<Result>>& results) {
  const int count = static_cast<int>(results.size());
  const auto get = [&results](int i) -> Result& { return *results[static_cast<std::size_t>(i)]; };
  return combine<Result>(count, get, GroupedLeaf<grouping>{count});
}

/// Calls `call(i)` for each of `count` copies, one after the other, and groups the results.
template <Grouping grouping, class Call>
auto call_for_copies(int count, const Call& call) {
  using Result = std::decay_t<std::invoke_result_t<const Call&, int>>;
  if constexpr (std::is_void_v<Result>) {
    for (int i = 0; i < count; ++i) call(i);
  } else {
    std::vector<std::optional<Result>> results(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) results[static_cast<std::size_t>(i)].emplace(call(i));
    return group_results<grouping, Result>(results);
  }
}

}  // namespace detail
}  // namespace lockstep
