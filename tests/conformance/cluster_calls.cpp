// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls of cluster specs and tasks, and of the parsers of Slurm's lists.

#include "conformance/steps.hpp"

#include <lockstep/lockstep.hpp>

#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace lockstep::conformance {
namespace {

/// {"worker": 3} as a cluster of three workers.
ClusterSpec cluster_of(const Json& counts) {
  std::map<std::string, ClusterSpec::Tasks> jobs;
  for (const auto& [name, count] : counts.items()) {
    for (int id = 0; id < count.get<int>(); ++id) jobs[name][id] = name + std::to_string(id) + ":1";
  }
  return ClusterSpec(std::move(jobs));
}

/// A call with a cluster (the step's, otherwise the case's) and a task.
template <class Call>
CallStep of_task(const Call& call) {
  return [call](World& world, const Json& step) {
    const Json& counts = step.contains("cluster") ? step["cluster"] : world.given()["cluster"];
    const Json task = step.value("task", Json::array({"worker", 0}));
    return result_of(call(cluster_of(counts), task[0].get<std::string>(), task[1].get<int>()));
  };
}

template <class Call>
CallStep of_text(const Call& call) {
  return [call](World&, const Json& step) { return result_of(call(step["text"].get<std::string>())); };
}

}  // namespace

void add_cluster_calls(Calls& calls) {
  calls["is_chief"] = of_task([](const auto& spec, const auto& type, int id) { return is_chief(spec, type, id); });
  calls["id_in_cluster"] =
      of_task([](const auto& spec, const auto& type, int id) { return id_in_cluster(spec, type, id); });
  calls["worker_count"] = of_task([](const auto& spec, const auto& type, int) { return worker_count(spec, type); });
  calls["expand_tasks"] = of_text([](const auto& text) { return expand_tasks_per_node(text); });
  calls["expand_hosts"] = of_text([](const auto& text) { return expand_hostlist(text); });
}

void add_cluster_scripts(Scripts& scripts) {
  scripts["P261"] = [] {
    return Script{[](World&) {
                    constexpr const char* text = R"({"cluster": {"chief": ["c:1"], "worker": ["a:1", "b:2"]},
                                                     "task": {"type": "worker", "index": 1}})";
                    setenv("TF_CONFIG", text, 1);
                    const TFConfigClusterResolver resolver;
                    unsetenv("TF_CONFIG");
                    const int id = id_in_cluster(resolver.cluster_spec(), resolver.task_type(), resolver.task_id());
                    return result_of(std::tuple(resolver.task_type(), resolver.task_id(),
                                                resolver.cluster_spec().num_tasks("worker"), id));
                  },
                  [](World&) { return result_of(TFConfigClusterResolver().cluster_spec().empty()); }};
  };
}

}  // namespace lockstep::conformance
