// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The check that a distributed value was made for the replicas that use it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/values/detail/merge.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <string_view>

namespace lockstep::detail {

/// The replicas of this rank: their number, and the global id of the first replica.
struct LocalReplicas {
  int count = 1;
  int first = 0;
};

/// Names an argument or a result of a call in error texts.
struct ValueName {
  std::string_view call;   ///< "run"
  std::string_view value;  ///< "argument"
  int number = 0;          ///< 1 for the first argument; 0 for a value without a number
};

/// Throws Error(invalid_argument): `name` has `components` components, but this rank has another number of replicas.
[[noreturn]] LOCKSTEP_API void throw_other_count(const ValueName& name, int components, const LocalReplicas& replicas);
/// Throws Error(invalid_argument): the components of `name` begin at replica `first`, but `replicas` begin at another
/// id.
[[noreturn]] LOCKSTEP_API void throw_other_first(const ValueName& name, int first, const LocalReplicas& replicas);

template <class T>
void check_replicas_of(const PerReplica<T>& value, const LocalReplicas& replicas, const ValueName& name) {
  if (value.size() != replicas.count) throw_other_count(name, value.size(), replicas);
  if (value.first_replica() != replicas.first) throw_other_first(name, value.first_replica(), replicas);
}
/// A Mirrored value with one copy fits any number of replicas, because all replicas use the same copy.
template <class T>
void check_replicas_of(const Mirrored<T>& value, const LocalReplicas& replicas, const ValueName& name) {
  if (value.size() != 1 && value.size() != replicas.count) throw_other_count(name, value.size(), replicas);
}

/// Throws Error(invalid_argument) unless every PerReplica leaf of `tree` has one component for each of `replicas`, and
/// every Mirrored leaf has the same number of copies or one copy. Costs nothing if `tree` has no such leaves.
template <class Tree>
void check_replicas([[maybe_unused]] const Tree& tree, [[maybe_unused]] const LocalReplicas& replicas,
                    [[maybe_unused]] const ValueName& name) {
  if constexpr (has_distributed_leaf<Tree>) {
    for_each_leaf(tree, [&]<class Leaf>(const Leaf& leaf) {
      if constexpr (is_distributed<Leaf>::value) check_replicas_of(leaf, replicas, name);
    });
  }
}

/// Calls check_replicas for each argument of `call`.
template <class... Args>
void check_arguments([[maybe_unused]] std::string_view call, [[maybe_unused]] const LocalReplicas& replicas,
                     const Args&... args) {
  int number = 0;
  (check_replicas(args, replicas, {call, "argument", ++number}), ...);
}

}  // namespace lockstep::detail
