// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What resolvers need of clusters.

#pragma once

#include <lockstep/cluster/cluster_spec.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Whether the numbers are 0, 1, 2, ...
[[nodiscard]] bool is_dense(const ClusterSpec::Tasks& tasks);

/// Throws Error(invalid_argument) unless `spec` has that task, or the task is an evaluator of a cluster without that
/// job.
void check_task(const ClusterSpec& spec, std::string_view call, std::string_view type, int id);

/// {{0, first}, {1, second}, ...}
[[nodiscard]] ClusterSpec::Tasks numbered_from_zero(std::vector<std::string> addresses);

/// Tasks in the order of ranks, and which job each belongs to.
using Jobs = std::vector<std::pair<std::string, int>>;

/// Deals `addresses`, by rank, to `jobs`, all to "worker" where that is empty. `who` is who counts that many ranks.
/// Throws Error(invalid_argument) where jobs are not as many tasks, or wrong themselves.
[[nodiscard]] ClusterSpec assign_to_jobs(const Jobs& jobs, std::vector<std::string> addresses, std::string_view call,
                                         std::string_view who);

/// The job and number of rank `rank`.
[[nodiscard]] std::pair<std::string, int> task_of_rank(const Jobs& jobs, int rank);

/// Throws Error(invalid_argument) unless all ports from `base` to the one of the last of `tasks` exist.
void check_ports(int base, int tasks, std::string_view call);

}  // namespace lockstep::detail
