// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a job in tf.distribute's words: a cluster of tasks, each with a type and a number.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_spec.hpp>

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A task of a cluster; nobody's where the type is empty and the number -1.
struct ClusterTask {
  std::string type;
  int id = -1;
  friend bool operator==(const ClusterTask&, const ClusterTask&) = default;
};

/// How many accelerators of each kind a task has: {{"GPU", 4}}.
using Accelerators = std::map<std::string, int>;

/// Which task of which cluster this process is. A view to read: nothing is configured by it. A value, complete when it
/// is made; the kinds of resolver differ in where they read it. Everything but their constructors is Local and
/// thread-safe.
class LOCKSTEP_API ClusterResolver {
 public:
  /// Rank `rank` of `ranks`: every rank is a task of type "worker", whose number is its rank and whose address is
  /// "rank:<number>". Throws Error(invalid_argument) for a rank that does not exist.
  ClusterResolver(int rank, int ranks);

  /// "worker", "chief", ...; empty where the resolver does not know.
  [[nodiscard]] const std::string& task_type() const noexcept { return task_.type; }
  /// -1 where the resolver does not know.
  [[nodiscard]] int task_id() const noexcept { return task_.id; }
  [[nodiscard]] const ClusterTask& task() const noexcept { return task_; }
  [[nodiscard]] const ClusterSpec& cluster_spec() const noexcept { return cluster_spec_; }
  /// The address of this task, without a protocol; empty where there is no cluster, or this process is no task of it.
  [[nodiscard]] std::string master() const;
  /// The address of another task. Throws Error(invalid_argument) for one that is not in the cluster.
  [[nodiscard]] std::string master(std::string_view task_type, int task_id) const;
  /// Of each task; empty where the resolver knows of none.
  [[nodiscard]] const Accelerators& num_accelerators() const noexcept { return accelerators_; }

 protected:
  ClusterResolver(ClusterSpec spec, ClusterTask task, Accelerators accelerators);

 private:
  ClusterSpec cluster_spec_;
  ClusterTask task_;
  Accelerators accelerators_;
};

/// What it is given. For tests, and for what knows its cluster from elsewhere.
class LOCKSTEP_API SimpleClusterResolver : public ClusterResolver {
 public:
  /// Throws Error(invalid_argument) for a task that `spec` does not have, unless it is an evaluator, and for a negative
  /// number of accelerators.
  explicit SimpleClusterResolver(ClusterSpec spec, ClusterTask task = {}, Accelerators accelerators = {});
};

/// Several clusters as one. Jobs of one name become one job: where all of them number their tasks from 0 without gaps
/// the lists are joined in the order of the resolvers, else tasks keep their numbers. Task and accelerators are those
/// of the first resolver, unless a task is given.
class LOCKSTEP_API UnionResolver : public ClusterResolver {
 public:
  /// Throws Error(invalid_argument) for an empty list, and for a number that two resolvers give to tasks of one job.
  explicit UnionResolver(std::span<const ClusterResolver> resolvers);
  UnionResolver(std::span<const ClusterResolver> resolvers, ClusterTask task);
};

/// `resolver` as the text of TF_CONFIG, for programs that are told their cluster so. Local.
[[nodiscard]] LOCKSTEP_API std::string to_tf_config(const ClusterResolver& resolver);

}  // namespace lockstep
