// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/cluster_resolver.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "cluster/cluster_tasks.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

ClusterSpec named_by_rank(int rank, int ranks) {
  if (rank < 0 || rank >= ranks) {
    detail::throw_error(Code::invalid_argument,
                        "ClusterResolver: rank is {}, but the job has {}; it must be in 0 to {}", rank,
                        detail::counted(ranks, "rank"), ranks - 1);
  }
  std::vector<std::string> names;
  for (int i = 0; i < ranks; ++i) names.push_back(fmt::format("rank:{}", i));
  return detail::assign_to_jobs({}, std::move(names), "ClusterResolver", "there are");
}

ClusterTask checked_task(const ClusterSpec& spec, ClusterTask task) {
  if (task.type.empty() != (task.id < 0)) {
    detail::throw_error(Code::invalid_argument,
                        "ClusterResolver: the task has type \"{}\" and id {}; give both type and id, or neither",
                        task.type, task.id);
  }
  if (!task.type.empty() && !spec.empty()) detail::check_task(spec, "ClusterResolver", task.type, task.id);
  return task;
}

Accelerators checked_accelerators(Accelerators accelerators) {
  for (const auto& [kind, count] : accelerators) {
    if (count < 0) {
      detail::throw_error(Code::invalid_argument,
                          "ClusterResolver: the number of accelerators \"{1}\" is {0}; it must be at least 0", count,
                          kind);
    }
  }
  return accelerators;
}

const ClusterResolver& first_of(std::span<const ClusterResolver> resolvers) {
  if (resolvers.empty()) {
    detail::throw_error(Code::invalid_argument, "UnionResolver: resolvers is empty; at least one is required");
  }
  return resolvers.front();
}

/// Adds `tasks` to `job` without renumbering the tasks.
void merge(ClusterSpec::Tasks& job, const ClusterSpec::Tasks& tasks, const std::string& name) {
  for (const auto& [id, address] : tasks) {
    const auto [found, is_new] = job.emplace(id, address);
    if (!is_new) {
      detail::throw_error(Code::invalid_argument,
                          "UnionResolver: task {} of job \"{}\" is both {} and {}; in a job whose task numbers have "
                          "gaps, each number must be given once",
                          id, name, found->second, address);
    }
  }
}

ClusterSpec union_of(std::span<const ClusterResolver> resolvers) {
  std::map<std::string, std::vector<const ClusterSpec::Tasks*>> parts;
  for (const ClusterResolver& resolver : resolvers) {
    for (const auto& [name, tasks] : resolver.cluster_spec().as_dict()) parts[name].push_back(&tasks);
  }
  std::map<std::string, ClusterSpec::Tasks> all;
  for (const auto& [name, lists] : parts) {
    ClusterSpec::Tasks& job = all[name];
    if (std::ranges::all_of(lists, [](const auto* tasks) { return detail::is_dense(*tasks); })) {
      for (const auto* tasks : lists) {
        for (const auto& [id, address] : *tasks) job.emplace(static_cast<int>(job.size()), address);
      }
    } else {
      for (const auto* tasks : lists) merge(job, *tasks, name);
    }
  }
  return ClusterSpec(std::move(all));
}

}  // namespace

ClusterResolver::ClusterResolver(int rank, int ranks)
    : ClusterResolver(named_by_rank(rank, ranks), {"worker", rank}, {}) {}

ClusterResolver::ClusterResolver(ClusterSpec spec, ClusterTask task, Accelerators accelerators)
    : cluster_spec_(std::move(spec)),
      task_(checked_task(cluster_spec_, std::move(task))),
      accelerators_(checked_accelerators(std::move(accelerators))) {}

std::string ClusterResolver::master() const {
  const auto job = cluster_spec_.as_dict().find(task_.type);
  if (job == cluster_spec_.as_dict().end()) return {};
  const auto found = job->second.find(task_.id);
  return found == job->second.end() ? std::string() : found->second;
}

std::string ClusterResolver::master(std::string_view task_type, int task_id) const {
  return cluster_spec_.task_address(task_type, task_id);
}

SimpleClusterResolver::SimpleClusterResolver(ClusterSpec spec, ClusterTask task, Accelerators accelerators)
    : ClusterResolver(std::move(spec), std::move(task), std::move(accelerators)) {}

UnionResolver::UnionResolver(std::span<const ClusterResolver> resolvers)
    : UnionResolver(resolvers, first_of(resolvers).task()) {}

UnionResolver::UnionResolver(std::span<const ClusterResolver> resolvers, ClusterTask task)
    : ClusterResolver(union_of(resolvers), std::move(task), first_of(resolvers).num_accelerators()) {}

}  // namespace lockstep
