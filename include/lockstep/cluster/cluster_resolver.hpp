// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute's cluster resolvers: the ranks of a job as a cluster of tasks, each with a type and a number.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_spec.hpp>

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A task of a cluster. An empty type and the id -1 stand for no task.
struct ClusterTask {
  std::string type;
  int id = -1;
  friend bool operator==(const ClusterTask&, const ClusterTask&) = default;
};

/// Number of accelerators of each kind that a task has: {{"GPU", 4}}.
using Accelerators = std::map<std::string, int>;

/// Describes a cluster, and which of its tasks this process is. It only informs; it configures nothing. The derived
/// classes differ in where they read the description. Value type. All members but the constructors are Local and
/// thread-safe.
class LOCKSTEP_API ClusterResolver {
 public:
  /// A cluster of `ranks` tasks of type "worker"; this process is task `rank`. The id of a task is its rank, its
  /// address is "rank:<id>". Throws Error(invalid_argument) unless 0 <= rank < ranks.
  ClusterResolver(int rank, int ranks);

  /// "worker", "chief", ...; empty if unknown.
  [[nodiscard]] const std::string& task_type() const noexcept { return task_.type; }
  /// -1 if unknown.
  [[nodiscard]] int task_id() const noexcept { return task_.id; }
  [[nodiscard]] const ClusterTask& task() const noexcept { return task_; }
  [[nodiscard]] const ClusterSpec& cluster_spec() const noexcept { return cluster_spec_; }
  /// The address of this task, without a protocol; empty if there is no cluster, or this process is not one of its
  /// tasks.
  [[nodiscard]] std::string master() const;
  /// The address of another task. Throws Error(invalid_argument) if the task is not in the cluster.
  [[nodiscard]] std::string master(std::string_view task_type, int task_id) const;
  /// Accelerators of each task; empty if unknown.
  [[nodiscard]] const Accelerators& num_accelerators() const noexcept { return accelerators_; }

 protected:
  ClusterResolver(ClusterSpec spec, ClusterTask task, Accelerators accelerators);

 private:
  ClusterSpec cluster_spec_;
  ClusterTask task_;
  Accelerators accelerators_;
};

/// Holds the cluster that it is given. For tests, and for programs that have a cluster description of their own.
class LOCKSTEP_API SimpleClusterResolver : public ClusterResolver {
 public:
  /// Throws Error(invalid_argument) if `spec` does not have the task (an evaluator is always accepted), and for a
  /// negative number of accelerators.
  explicit SimpleClusterResolver(ClusterSpec spec, ClusterTask task = {}, Accelerators accelerators = {});
};

/// The union of several clusters. Jobs with the same name become one job: if all of them number their tasks from 0
/// without gaps, their lists are concatenated in the order of the resolvers; otherwise tasks keep their numbers. Task
/// and accelerators are those of the first resolver, unless a task is given.
class LOCKSTEP_API UnionResolver : public ClusterResolver {
 public:
  /// Throws Error(invalid_argument) for an empty list, and if two resolvers use the same number for a task of a job
  /// whose tasks keep their numbers.
  explicit UnionResolver(std::span<const ClusterResolver> resolvers);
  UnionResolver(std::span<const ClusterResolver> resolvers, ClusterTask task);
};

/// Converts `resolver` to the text of TF_CONFIG, for programs that read this variable. Local.
[[nodiscard]] LOCKSTEP_API std::string to_tf_config(const ClusterResolver& resolver);

}  // namespace lockstep
