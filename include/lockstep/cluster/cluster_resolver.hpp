// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The cluster resolvers of tf.distribute. A resolver describes the ranks of a job as the tasks of a cluster. Each task
// has a type and a number.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_spec.hpp>

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A task of a cluster. The type "" with the id -1 means that there is no task.
struct ClusterTask {
  std::string type;
  int id = -1;
  friend bool operator==(const ClusterTask&, const ClusterTask&) = default;
};

/// Number of accelerators of a task, by kind: {{"GPU", 4}}.
using Accelerators = std::map<std::string, int>;

/// Describes a cluster, and tells which task of the cluster this process is. A resolver only gives information; it
/// configures nothing. Each derived class reads the description from a different source. Value type. All members except
/// the constructors are Local and thread-safe.
class LOCKSTEP_API ClusterResolver {
 public:
  /// A cluster of `ranks` tasks of type "worker"; this process is task `rank`. The id of a task is its rank, and the
  /// address of a task is "rank:<id>". Throws Error(invalid_argument) unless 0 <= rank < ranks.
  ClusterResolver(int rank, int ranks);

  /// Type of the task of this process: "worker", "chief", ...; empty if unknown.
  [[nodiscard]] const std::string& task_type() const noexcept { return task_.type; }
  /// Id of the task of this process; -1 if unknown.
  [[nodiscard]] int task_id() const noexcept { return task_.id; }
  [[nodiscard]] const ClusterTask& task() const noexcept { return task_; }
  [[nodiscard]] const ClusterSpec& cluster_spec() const noexcept { return cluster_spec_; }
  /// Address of the task of this process, without a protocol. Empty if the cluster has no tasks, or if this process is
  /// not a task of the cluster.
  [[nodiscard]] std::string master() const;
  /// Address of any task. Throws Error(invalid_argument) if the task is not in the cluster.
  [[nodiscard]] std::string master(std::string_view task_type, int task_id) const;
  /// Number of accelerators of each task, by kind; empty if unknown.
  [[nodiscard]] const Accelerators& num_accelerators() const noexcept { return accelerators_; }

 protected:
  ClusterResolver(ClusterSpec spec, ClusterTask task, Accelerators accelerators);

 private:
  ClusterSpec cluster_spec_;
  ClusterTask task_;
  Accelerators accelerators_;
};

/// A resolver with a given description of the cluster. For tests, and for programs that read the description from a
/// source of their own.
class LOCKSTEP_API SimpleClusterResolver : public ClusterResolver {
 public:
  /// Throws Error(invalid_argument) if `task` is not in `spec` (an evaluator need not be in `spec`), and for a negative
  /// number of accelerators. If `spec` has no jobs, any task is accepted.
  explicit SimpleClusterResolver(ClusterSpec spec, ClusterTask task = {}, Accelerators accelerators = {});
};

/// The union of several clusters. Jobs with the same name become one job. If all of these jobs number their tasks from
/// 0 without gaps, the task lists are concatenated in the order of the resolvers, and the tasks get new numbers.
/// Otherwise all tasks of these jobs keep their numbers. The accelerators are those of the first resolver. The task of
/// this process is that of the first resolver, unless the constructor has a task as an argument.
class LOCKSTEP_API UnionResolver : public ClusterResolver {
 public:
  /// Throws Error(invalid_argument) if `resolvers` is empty, and if tasks keep their numbers and two tasks of a job
  /// have the same number.
  explicit UnionResolver(std::span<const ClusterResolver> resolvers);
  UnionResolver(std::span<const ClusterResolver> resolvers, ClusterTask task);
};

/// Returns the description of `resolver` in the format of TF_CONFIG, for programs that read this variable. Local.
[[nodiscard]] LOCKSTEP_API std::string to_tf_config(const ClusterResolver& resolver);

}  // namespace lockstep
