// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute's description of a cluster: jobs such as "worker", each with numbered tasks, each task with an address.

#pragma once

#include <lockstep/base/export.hpp>

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Jobs by name, and their tasks by number. Task numbers may have gaps. Value type.
///
/// All members are Local. Addresses are only stored: ranks connect through MPI.
class LOCKSTEP_API ClusterSpec {
 public:
  /// The tasks of one job: addresses by number.
  using Tasks = std::map<int, std::string>;

  /// A cluster without jobs.
  ClusterSpec() = default;
  /// Jobs whose tasks are numbered from 0: `ClusterSpec{{"worker", {"a:1", "b:1"}}, {"ps", {"c:1"}}}`.
  /// Throws Error(invalid_argument) for an empty name or address, and for a job that is given twice.
  ClusterSpec(std::initializer_list<std::pair<std::string, std::vector<std::string>>> jobs);
  /// Jobs whose tasks have the numbers given. Throws Error(invalid_argument) for an empty name or address and for a
  /// negative number.
  explicit ClusterSpec(std::map<std::string, Tasks> jobs);

  /// Whether the cluster has no jobs.
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  /// The names of all jobs, in alphabetical order.
  [[nodiscard]] std::vector<std::string> jobs() const;
  [[nodiscard]] bool has_job(std::string_view job) const;
  /// Number of tasks of `job`; 0 if there is no such job.
  [[nodiscard]] int num_tasks(std::string_view job) const;
  /// Task numbers of `job`, ascending. Throws Error(invalid_argument) if there is no such job.
  [[nodiscard]] std::vector<int> task_indices(std::string_view job) const;
  /// Address of a task. Throws Error(invalid_argument) if there is no such job or task.
  [[nodiscard]] const std::string& task_address(std::string_view job, int task_id) const;
  /// All jobs, with their tasks. The reference is valid as long as this object.
  [[nodiscard]] const std::map<std::string, Tasks>& as_dict() const noexcept { return jobs_; }

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;

 private:
  std::map<std::string, Tasks> jobs_;
};

/// "chief [c:1] worker [0 a:1, 2 b:1]": numbers are printed if they have gaps. Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const ClusterSpec& spec);

// The three functions below accept the jobs "chief", "worker", "evaluator" and "ps". They throw Error(invalid_argument)
// for any other job or task type, for more than one chief or evaluator, and for a task that `spec` does not have; an
// evaluator need not be in it. Local.

/// Whether a task is the chief, which does the work that must be done once. This is the task "chief", or worker 0 (the
/// lowest worker) if there is no chief. An evaluator is its own chief.
[[nodiscard]] LOCKSTEP_API bool is_chief(const ClusterSpec& spec, std::string_view task_type, int task_id);

/// Number of tasks that take part in training, including the chief; for task_type "evaluator", the number of
/// evaluators. Throws Error(invalid_argument) for "ps".
[[nodiscard]] LOCKSTEP_API int worker_count(const ClusterSpec& spec, std::string_view task_type = "worker");

/// The index of a task among those that `worker_count` counts: 0 for the chief, then the workers. It is the MPI rank of
/// the task. Throws Error(invalid_argument) for "ps".
[[nodiscard]] LOCKSTEP_API int id_in_cluster(const ClusterSpec& spec, std::string_view task_type, int task_id);

}  // namespace lockstep
