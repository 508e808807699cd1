// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/cluster_spec.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "cluster/cluster_tasks.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> allowed_jobs{"chief", "worker", "evaluator", "ps"};

bool is_allowed(std::string_view job) { return std::ranges::find(allowed_jobs, job) != allowed_jobs.end(); }

void check_job(const std::string& name, const ClusterSpec::Tasks& tasks) {
  if (name.empty()) {
    detail::throw_error(Code::invalid_argument,
                        "ClusterSpec: a job has an empty name; expected a name such as \"worker\"");
  }
  for (const auto& [id, address] : tasks) {
    if (id < 0) {
      detail::throw_error(Code::invalid_argument,
                          "ClusterSpec: job \"{}\" has a task with number {}; it must be at least 0", name, id);
    }
    if (address.empty()) {
      detail::throw_error(Code::invalid_argument, "ClusterSpec: task {} of job \"{}\" has an empty address", id, name);
    }
  }
}

/// Throws Error(invalid_argument) if `spec` has an unknown job, several chiefs, or several evaluators.
void check_for_training(const ClusterSpec& spec, std::string_view call) {
  for (const std::string& job : spec.jobs()) {
    if (!is_allowed(job)) {
      detail::throw_error(Code::invalid_argument, "{}: the cluster has a job \"{}\"; allowed jobs are {}", call, job,
                          fmt::join(allowed_jobs, ", "));
    }
  }
  for (const std::string_view single : {"chief", "evaluator"}) {
    if (spec.num_tasks(single) > 1) {
      detail::throw_error(Code::invalid_argument, "{}: the cluster has {} tasks of job \"{}\"; there is at most one {}",
                          call, spec.num_tasks(single), single, single);
    }
  }
}

void check_type(const ClusterSpec& spec, std::string_view call, std::string_view type) {
  check_for_training(spec, call);
  if (!is_allowed(type)) {
    detail::throw_error(Code::invalid_argument, "{}: task type \"{}\" is unknown; task types are {}", call, type,
                        fmt::join(allowed_jobs, ", "));
  }
}

std::string numbered(const ClusterSpec::Tasks& tasks) {
  std::vector<std::string> words;
  const bool is_dense = detail::is_dense(tasks);
  for (const auto& [id, address] : tasks) {
    words.push_back(is_dense ? address : fmt::format("{} {}", id, address));
  }
  return fmt::format("[{}]", fmt::join(words, ", "));
}

}  // namespace

namespace detail {

bool is_dense(const ClusterSpec::Tasks& tasks) {
  return tasks.empty() || (tasks.begin()->first == 0 && tasks.rbegin()->first == static_cast<int>(tasks.size()) - 1);
}

void check_task(const ClusterSpec& spec, std::string_view call, std::string_view type, int id) {
  const auto job = spec.as_dict().find(std::string(type));
  if (job != spec.as_dict().end() ? job->second.contains(id) : type == "evaluator" && id >= 0) return;
  if (job == spec.as_dict().end()) {
    throw_error(Code::invalid_argument, "{}: the cluster has no job \"{}\"; its jobs are [{}]", call, type,
                fmt::join(spec.jobs(), ", "));
  }
  throw_error(Code::invalid_argument, "{}: job \"{}\" has no task {}; it has {}: {}", call, type, id,
              counted(job->second.size(), "task"), numbered(job->second));
}

ClusterSpec::Tasks numbered_from_zero(std::vector<std::string> addresses) {
  ClusterSpec::Tasks tasks;
  for (std::string& address : addresses)
    tasks.emplace_hint(tasks.end(), static_cast<int>(tasks.size()), std::move(address));
  return tasks;
}

}  // namespace detail

ClusterSpec::ClusterSpec(std::initializer_list<std::pair<std::string, std::vector<std::string>>> jobs) {
  for (const auto& [name, addresses] : jobs) {
    const auto [job, is_new] = jobs_.emplace(name, detail::numbered_from_zero(addresses));
    if (!is_new) detail::throw_error(Code::invalid_argument, "ClusterSpec: job \"{}\" is given twice", name);
    check_job(name, job->second);
  }
}

ClusterSpec::ClusterSpec(std::map<std::string, Tasks> jobs) : jobs_(std::move(jobs)) {
  for (const auto& [name, tasks] : jobs_) check_job(name, tasks);
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [name, tasks] : jobs_) names.push_back(name);
  return names;
}

bool ClusterSpec::has_job(std::string_view job) const { return jobs_.contains(std::string(job)); }

int ClusterSpec::num_tasks(std::string_view job) const {
  const auto found = jobs_.find(std::string(job));
  return found == jobs_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<int> ClusterSpec::task_indices(std::string_view job) const {
  const auto found = jobs_.find(std::string(job));
  if (found == jobs_.end()) {
    detail::throw_error(Code::invalid_argument, "task_indices: the cluster has no job \"{}\"; its jobs are [{}]", job,
                        fmt::join(jobs(), ", "));
  }
  std::vector<int> numbers;
  for (const auto& [id, address] : found->second) numbers.push_back(id);
  return numbers;
}

const std::string& ClusterSpec::task_address(std::string_view job, int task_id) const {
  const auto found = jobs_.find(std::string(job));
  if (found == jobs_.end() || !found->second.contains(task_id)) {
    if (found == jobs_.end()) {
      detail::throw_error(Code::invalid_argument, "task_address: the cluster has no job \"{}\"; its jobs are [{}]", job,
                          fmt::join(jobs(), ", "));
    }
    detail::check_task(*this, "task_address", job, task_id);
  }
  return found->second.at(task_id);
}

std::string to_string(const ClusterSpec& spec) {
  std::vector<std::string> words;
  for (const auto& [name, tasks] : spec.as_dict()) words.push_back(fmt::format("{} {}", name, numbered(tasks)));
  return fmt::format("{}", fmt::join(words, " "));
}

bool is_chief(const ClusterSpec& spec, std::string_view task_type, int task_id) {
  check_type(spec, "is_chief", task_type);
  detail::check_task(spec, "is_chief", task_type, task_id);
  if (task_type == "chief" || task_type == "evaluator") return true;
  return task_type == "worker" && spec.num_tasks("chief") == 0 && task_id == spec.task_indices("worker").front();
}

int worker_count(const ClusterSpec& spec, std::string_view task_type) {
  check_type(spec, "worker_count", task_type);
  if (task_type == "ps") {
    detail::throw_error(Code::invalid_argument,
                        "worker_count: task_type is \"ps\", which is not counted; use chief, worker or evaluator");
  }
  if (task_type == "evaluator") return spec.num_tasks("evaluator");
  if (!spec.has_job(task_type)) detail::check_task(spec, "worker_count", task_type, 0);
  return spec.num_tasks("chief") + spec.num_tasks("worker");
}

int id_in_cluster(const ClusterSpec& spec, std::string_view task_type, int task_id) {
  check_type(spec, "id_in_cluster", task_type);
  detail::check_task(spec, "id_in_cluster", task_type, task_id);
  if (task_type == "chief") return 0;
  if (task_type == "evaluator") return task_id;
  if (task_type == "ps") {
    detail::throw_error(
        Code::invalid_argument,
        "id_in_cluster: task_type is \"ps\", which has no id in the cluster; use chief, worker or evaluator");
  }
  const ClusterSpec::Tasks& workers = spec.as_dict().at("worker");
  return spec.num_tasks("chief") + static_cast<int>(std::distance(workers.begin(), workers.find(task_id)));
}

}  // namespace lockstep
