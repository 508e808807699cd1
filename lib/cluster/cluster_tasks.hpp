// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of tasks, and the assignment of ranks to jobs, for the cluster resolvers.

#pragma once

#include <lockstep/cluster/cluster_spec.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Whether the tasks are numbered 0, 1, 2, ... without gaps.
[[nodiscard]] bool is_dense(const ClusterSpec::Tasks& tasks);

/// Throws Error(invalid_argument) if `spec` has no task `id` of job `type`. If `spec` has no job "evaluator", every
/// evaluator is accepted. `call` is the prefix of the error text.
void check_task(const ClusterSpec& spec, std::string_view call, std::string_view type, int id);

/// Returns tasks with the numbers 0, 1, ...: {{0, first}, {1, second}, ...}
[[nodiscard]] ClusterSpec::Tasks numbered_from_zero(std::vector<std::string> addresses);

/// Jobs in the order of their ranks: name and number of tasks of each job.
using Jobs = std::vector<std::pair<std::string, int>>;

/// Assigns `addresses`, which are in the order of ranks, to `jobs`. If `jobs` is empty, assigns all addresses to one
/// job "worker". `counted` is the text before the number of addresses in an error text, such as "there are". Throws
/// Error(invalid_argument) if the jobs do not have one task per address, if a job has no tasks, or if a job is given
/// twice.
[[nodiscard]] ClusterSpec assign_to_jobs(const Jobs& jobs, std::vector<std::string> addresses, std::string_view call,
                                         std::string_view counted);

/// Returns the job of a rank, and the task number of the rank in that job.
[[nodiscard]] std::pair<std::string, int> task_of_rank(const Jobs& jobs, int rank);

/// Throws Error(invalid_argument) if one of `base` to `base + tasks - 1` is not a valid port number.
void check_ports(int base, int tasks, std::string_view call);

}  // namespace lockstep::detail
