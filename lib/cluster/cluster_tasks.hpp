// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the cluster resolvers: checks of tasks, and the assignment of ranks to jobs.

#pragma once

#include <lockstep/cluster/cluster_spec.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Whether the tasks are numbered 0, 1, 2, ... without gaps.
[[nodiscard]] bool is_dense(const ClusterSpec::Tasks& tasks);

/// Throws Error(invalid_argument) unless `spec` has task `id` of job `type`. An evaluator is accepted if `spec` has no
/// job "evaluator". `call` is the prefix of the error text.
void check_task(const ClusterSpec& spec, std::string_view call, std::string_view type, int id);

/// Tasks numbered from 0: {{0, first}, {1, second}, ...}
[[nodiscard]] ClusterSpec::Tasks numbered_from_zero(std::vector<std::string> addresses);

/// Jobs in the order of ranks, each with its number of tasks.
using Jobs = std::vector<std::pair<std::string, int>>;

/// Assigns `addresses`, which are in the order of ranks, to `jobs`; to the one job "worker" if `jobs` is empty.
/// `counted` begins the clause of an error text that ends with the number of addresses ("there are").
/// Throws Error(invalid_argument) if the jobs do not have one task per address, have no tasks, or are given twice.
[[nodiscard]] ClusterSpec assign_to_jobs(const Jobs& jobs, std::vector<std::string> addresses, std::string_view call,
                                         std::string_view counted);

/// The job of a rank, and its task number in that job.
[[nodiscard]] std::pair<std::string, int> task_of_rank(const Jobs& jobs, int rank);

/// Throws Error(invalid_argument) unless `base` to `base + tasks - 1` are valid port numbers.
void check_ports(int base, int tasks, std::string_view call);

}  // namespace lockstep::detail
