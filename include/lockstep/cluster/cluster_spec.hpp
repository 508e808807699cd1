// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The description of a cluster in tf.distribute. A cluster has jobs, such as "worker". A job has numbered tasks. A task
// has an address.

#pragma once

#include <lockstep/base/export.hpp>

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// The jobs of a cluster by name, and the tasks of each job by number. Task numbers may have gaps. Value type.
///
/// All members are Local. lockstep stores the addresses but never connects to them: the ranks connect through MPI.
class LOCKSTEP_API ClusterSpec {
 public:
  /// The tasks of one job: addresses by number.
  using Tasks = std::map<int, std::string>;

  /// A cluster without jobs.
  ClusterSpec() = default;
  /// Jobs whose tasks are numbered from 0: `ClusterSpec{{"worker", {"a:1", "b:1"}}, {"ps", {"c:1"}}}`.
  /// Throws Error(invalid_argument) for an empty name, for an empty address, and for two jobs with the same name.
  ClusterSpec(std::initializer_list<std::pair<std::string, std::vector<std::string>>> jobs);
  /// Jobs whose tasks have the given numbers. Throws Error(invalid_argument) for an empty name, for an empty address,
  /// and for a negative number.
  explicit ClusterSpec(std::map<std::string, Tasks> jobs);

  /// Whether the cluster has no jobs.
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  /// The names of all jobs, in alphabetical order.
  [[nodiscard]] std::vector<std::string> jobs() const;
  [[nodiscard]] bool has_job(std::string_view job) const;
  /// Number of tasks of `job`; 0 if the cluster does not have this job.
  [[nodiscard]] int num_tasks(std::string_view job) const;
  /// Task numbers of `job`, ascending. Throws Error(invalid_argument) if the cluster does not have this job.
  [[nodiscard]] std::vector<int> task_indices(std::string_view job) const;
  /// Address of a task. Throws Error(invalid_argument) if the cluster does not have this job or task.
  [[nodiscard]] const std::string& task_address(std::string_view job, int task_id) const;
  /// All jobs, with their tasks. The reference is valid as long as this object exists.
  [[nodiscard]] const std::map<std::string, Tasks>& as_dict() const noexcept { return jobs_; }

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;

 private:
  std::map<std::string, Tasks> jobs_;
};

/// The jobs as text: "chief [c:1] worker [0 a:1, 2 b:1]". If the task numbers of a job have gaps, the text has the
/// numbers. Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const ClusterSpec& spec);

// The three functions below accept clusters with the jobs "chief", "worker", "evaluator" and "ps". They throw
// Error(invalid_argument) for any other job or task type, for more than one chief, for more than one evaluator, and for
// a task that is not in `spec`. An evaluator need not be in `spec`. Local.

/// Whether a task is the chief, which does the work that only one task must do. The chief is the task "chief". If there
/// is no such task, the chief is the worker with the lowest number. For an evaluator, the result is always true.
[[nodiscard]] LOCKSTEP_API bool is_chief(const ClusterSpec& spec, std::string_view task_type, int task_id);

/// Number of tasks that train: the chief and the workers. For task_type "evaluator", the number of evaluators. Throws
/// Error(invalid_argument) for "ps".
[[nodiscard]] LOCKSTEP_API int worker_count(const ClusterSpec& spec, std::string_view task_type = "worker");

/// The index of a task among the tasks that `worker_count` counts: 0 for the chief, then the workers in the order of
/// their numbers. For the chief and the workers, the index is the MPI rank. Throws Error(invalid_argument) for "ps".
[[nodiscard]] LOCKSTEP_API int id_in_cluster(const ClusterSpec& spec, std::string_view task_type, int task_id);

}  // namespace lockstep
