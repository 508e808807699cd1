// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/slurm_cluster_resolver.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "cluster/cluster_tasks.hpp"
#include "cluster/host_list.hpp"
#include "cluster/launcher.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

namespace lockstep {
namespace {

constexpr std::string_view slurm_resolver = "SlurmClusterResolver";

std::optional<std::string> variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

std::string needed(const char* name) {
  if (auto text = variable(name)) return *text;
  detail::throw_error(
      Code::failed_precondition,
      "{}: the environment variable {} is not set; start the program with srun, or use MpiClusterResolver under mpirun",
      slurm_resolver, name);
}

int number(const char* name, const std::string& text, int least) {
  const auto value = detail::number_of(text);
  if (!value || *value < least || *value > 1'000'000'000) {
    detail::throw_error(Code::invalid_argument, "{}: {} is \"{}\"; it must be an integer >= {}", slurm_resolver, name,
                        text, least);
  }
  return static_cast<int>(*value);
}

/// The list in the variable `name`, read by `read`.
template <class Read>
auto list_of(const char* name, const Read& read) {
  return read(needed(name), fmt::format("{}: {}", slurm_resolver, name));
}

void check_launcher() {
  const std::string launcher = detail::launcher_within_slurm();
  if (launcher.empty()) return;
  detail::throw_error(Code::failed_precondition,
                      "{}: this rank was started by {}, so Slurm's variables describe the daemon of that launcher and "
                      "are equal on all ranks of a node; use MpiClusterResolver, which reads the communicator",
                      slurm_resolver, launcher);
}

/// The job step that Slurm's variables describe.
struct JobStep {
  int task = 0;
  std::vector<std::string> hosts;
  std::vector<int> tasks_per_node;
  int tasks = 0;
};

JobStep read_step() {
  JobStep step;
  step.task = number("SLURM_PROCID", needed("SLURM_PROCID"), 0);
  step.tasks = number("SLURM_STEP_NUM_TASKS", needed("SLURM_STEP_NUM_TASKS"), 1);
  step.hosts = list_of("SLURM_STEP_NODELIST", detail::hosts_of_list);
  step.tasks_per_node = list_of("SLURM_STEP_TASKS_PER_NODE", detail::tasks_of_list);
  if (step.hosts.size() != step.tasks_per_node.size()) {
    detail::throw_error(Code::invalid_argument, "{}: SLURM_STEP_NODELIST has {}, but SLURM_STEP_TASKS_PER_NODE has {}",
                        slurm_resolver, detail::counted(step.hosts.size(), "node"), step.tasks_per_node.size());
  }
  const long long sum = std::accumulate(step.tasks_per_node.begin(), step.tasks_per_node.end(), 0LL);
  if (sum != step.tasks) {
    detail::throw_error(Code::invalid_argument,
                        "{}: SLURM_STEP_TASKS_PER_NODE has {} in total, but SLURM_STEP_NUM_TASKS is {}", slurm_resolver,
                        detail::counted(sum, "task"), step.tasks);
  }
  if (step.task >= step.tasks) {
    detail::throw_error(Code::invalid_argument, "{}: SLURM_PROCID is {}, but the step has {}", slurm_resolver,
                        step.task, detail::counted(step.tasks, "task"));
  }
  return step;
}

/// The node of each task. Slurm fills one node after the other (block), or assigns tasks to nodes round-robin (cyclic).
std::vector<std::size_t> nodes_of_tasks(const JobStep& step) {
  const std::string distribution = variable("SLURM_DISTRIBUTION").value_or("block");
  const std::string over_nodes = distribution.substr(0, distribution.find_first_of(":,"));
  std::vector<std::size_t> nodes;
  if (over_nodes == "block") {
    for (std::size_t node = 0; node < step.hosts.size(); ++node) {
      nodes.insert(nodes.end(), static_cast<std::size_t>(step.tasks_per_node[node]), node);
    }
  } else if (over_nodes == "cyclic") {
    const int rounds = std::ranges::max(step.tasks_per_node);
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t node = 0; node < step.hosts.size(); ++node) {
        if (round < step.tasks_per_node[node]) nodes.push_back(node);
      }
    }
  } else {
    detail::throw_error(Code::invalid_argument,
                        "{}: SLURM_DISTRIBUTION is \"{}\", which does not determine the node of each task; use block "
                        "or cyclic, or MpiClusterResolver, which reads the communicator",
                        slurm_resolver, distribution);
  }
  return nodes;
}

void check_own_node(const JobStep& step, const std::string& host) {
  const auto own = variable("SLURMD_NODENAME");
  if (!own || *own == host) return;
  detail::throw_error(Code::invalid_argument,
                      "{}: task {} should be on node {} by Slurm's variables, but it runs on {}; the variables do not "
                      "describe the placement of the tasks. Use MpiClusterResolver, which reads the communicator",
                      slurm_resolver, step.task, host, *own);
}

std::vector<std::string> addresses_of(const JobStep& step, int port_base) {
  detail::check_ports(port_base, std::ranges::max(step.tasks_per_node), slurm_resolver);
  const std::vector<std::size_t> nodes = nodes_of_tasks(step);
  check_own_node(step, step.hosts[nodes[static_cast<std::size_t>(step.task)]]);
  std::vector<int> next(step.hosts.size(), port_base);
  std::vector<std::string> addresses;
  for (const std::size_t node : nodes) addresses.push_back(fmt::format("{}:{}", step.hosts[node], next[node]++));
  return addresses;
}

Accelerators accelerators_of(const JobStep& step, const SlurmOptions& options) {
  std::optional<int> on_node = options.gpus_per_node;
  if (!on_node) {
    if (const auto text = variable("SLURM_GPUS_ON_NODE")) on_node = number("SLURM_GPUS_ON_NODE", *text, 0);
  }
  const int most_tasks = std::ranges::max(step.tasks_per_node);
  if (!options.gpus_per_task && on_node.value_or(0) == 0) return {};
  const int per_task = options.gpus_per_task.value_or(on_node.value_or(0) / most_tasks);
  if (per_task < 0 || on_node.value_or(0) < 0 ||
      (on_node && static_cast<long long>(per_task) * most_tasks > *on_node)) {
    detail::throw_error(Code::invalid_argument,
                        "{}: {} per task (gpus_per_task) for {} on a node, but the node has {} "
                        "(gpus_per_node or SLURM_GPUS_ON_NODE)",
                        slurm_resolver, detail::counted(per_task, "GPU"), detail::counted(most_tasks, "task"),
                        detail::counted(on_node.value_or(0), "GPU"));
  }
  return {{"GPU", per_task}};
}

SimpleClusterResolver resolver_of(const SlurmOptions& options) {
  check_launcher();
  const JobStep step = read_step();
  ClusterSpec spec =
      detail::assign_to_jobs(options.jobs, addresses_of(step, options.port_base), slurm_resolver, "the Slurm step has");
  auto [type, id] = detail::task_of_rank(options.jobs, step.task);
  return SimpleClusterResolver(std::move(spec), {std::move(type), id}, accelerators_of(step, options));
}

}  // namespace

SlurmClusterResolver::SlurmClusterResolver(const SlurmOptions& options) : ClusterResolver(resolver_of(options)) {}

}  // namespace lockstep
