// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A cluster in tf.distribute's words: jobs such as "worker", each a list of numbered tasks, each task with an address.

#pragma once

#include <lockstep/base/export.hpp>

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Jobs by name, their tasks by number. Numbers may have gaps. A value.
///
/// Everything here is Local. An address is only text: lockstep's ranks find one another through MPI.
class LOCKSTEP_API ClusterSpec {
 public:
  /// The tasks of one job: addresses by number.
  using Tasks = std::map<int, std::string>;

  /// No jobs.
  ClusterSpec() = default;
  /// Jobs whose tasks are numbered from 0: `ClusterSpec{{"worker", {"a:1", "b:1"}}, {"ps", {"c:1"}}}`.
  /// Throws Error(invalid_argument) for an empty name or address, and for a job that is given twice.
  ClusterSpec(std::initializer_list<std::pair<std::string, std::vector<std::string>>> jobs);
  /// Jobs whose tasks have the numbers given. Throws Error(invalid_argument) for an empty name or address and for a
  /// negative number.
  explicit ClusterSpec(std::map<std::string, Tasks> jobs);

  /// Whether there is no job.
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  /// The names of all jobs, in alphabetical order.
  [[nodiscard]] std::vector<std::string> jobs() const;
  [[nodiscard]] bool has_job(std::string_view job) const;
  /// How many tasks `job` has; 0 for a job that is not here.
  [[nodiscard]] int num_tasks(std::string_view job) const;
  /// The numbers of the tasks of `job`, in order. Throws Error(invalid_argument) for a job that is not here.
  [[nodiscard]] std::vector<int> task_indices(std::string_view job) const;
  /// The address of one task. Throws Error(invalid_argument) for a job or a task that is not here.
  [[nodiscard]] const std::string& task_address(std::string_view job, int task_id) const;
  /// Everything, to walk through. The reference is this object's.
  [[nodiscard]] const std::map<std::string, Tasks>& as_dict() const noexcept { return jobs_; }

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;

 private:
  std::map<std::string, Tasks> jobs_;
};

/// "chief [c:1] worker [0 a:1, 2 b:1]": numbers are said where they have gaps. Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const ClusterSpec& spec);

// The three functions below know the jobs "chief", "worker", "evaluator" and "ps". They throw Error(invalid_argument)
// for any other job or task type, for more than one chief or evaluator, and for a task that `spec` does not have; an
// evaluator need not be in it. Local.

/// Whether a task does what one of them must: the chief; where there is none, worker 0; the evaluator for itself.
[[nodiscard]] LOCKSTEP_API bool is_chief(const ClusterSpec& spec, std::string_view task_type, int task_id);

/// How many tasks take part in training, chief included; for task_type "evaluator", how many evaluators there are.
/// Throws Error(invalid_argument) for "ps", of which there is no such count.
[[nodiscard]] LOCKSTEP_API int worker_count(const ClusterSpec& spec, std::string_view task_type = "worker");

/// The number of a task among those that `worker_count` counts: 0 for the chief, then the workers. Such a cluster has
/// this number as MPI rank. Throws Error(invalid_argument) for "ps", which has none.
[[nodiscard]] LOCKSTEP_API int id_in_cluster(const ClusterSpec& spec, std::string_view task_type, int task_id);

}  // namespace lockstep
