// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "conformance/runner.hpp"

#include "conformance/devices.hpp"
#include "conformance/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>

namespace lockstep::conformance {
namespace {

/// Areas whose results do not depend on the placement of replicas.
bool is_movable_area(const std::string& area) {
  static const std::set<std::string> areas = {"reduce", "all_reduce", "batch_reduce", "gather", "sparse", "input",
                                              "update", "variable",   "scatter",      "values", "run",    "checkpoint"};
  return areas.contains(area);
}

/// Cases of those areas that keep their placement: a plain value counts once per rank if each rank has one replica
/// (P12, P13, P187), and structures are compared within a rank (P24).
bool is_pinned(const std::string& id) {
  static const std::set<std::string> ids = {"P12", "P13", "P187", "P24"};
  return ids.contains(id);
}

/// Whether a step asks for the components of one rank, or distributes data in a way that depends on the ranks.
bool is_about_a_rank(const Json& step) {
  return step.is_string() || step["call"] == "local_results" || !step.value("group", true) ||
         step["call"] == "distribute_datasets_from_function" || step.value("shard", "AUTO") != "AUTO";
}

/// The strategy of a placement; the default one belongs to its thread.
struct OwnedStrategy {
  std::unique_ptr<Strategy> own;
  Strategy* strategy = nullptr;
};

OwnedStrategy make_strategy(const Placement& placement, Communicator* communicator) {
  OwnedStrategy made;
  if (placement.strategy == "default") {
    made.strategy = &get_strategy();
    return made;
  }
  if (placement.strategy == "one_device") {
    made.own = std::make_unique<OneDeviceStrategy>(devices_of_process(1).front());
  } else if (placement.strategy == "mirrored") {
    made.own = std::make_unique<MirroredStrategy>(devices_of_process(placement.counts.front()));
  } else if (placement.strategy == "multi_worker_mirrored") {
    MultiWorkerOptions options;
    options.devices =
        devices_of_rank(communicator->layout().first(communicator->rank()), communicator->local_replicas());
    made.own = std::make_unique<MultiWorkerMirroredStrategy>(*communicator, options);
  } else {
    throw std::logic_error("strategy \"" + placement.strategy + "\" is unknown");
  }
  made.strategy = made.own.get();
  return made;
}

/// All ranks leave a case together, after each has received the failures of the others, so that no message is pending
/// in the next case.
void leave_together(const Strategy& strategy) {
  constexpr int more_than_there_are_failures = 5;
  Communicator communicator = strategy.communicator();
  for (int k = 0; k < more_than_there_are_failures; ++k) {
    try {
      communicator.barrier();
      return;
    } catch (const Error&) {}  // thrown once on every rank
  }
}

bool may_move(const Json& one_case) {
  const auto& layout = one_case["layout"];
  return is_movable_area(one_case["area"].get<std::string>()) && layout["replicas"].get<int>() > 1 &&
         std::ranges::none_of(one_case["action"], is_about_a_rank) && !is_pinned(one_case["id"].get<std::string>());
}

std::vector<int> counts_of(const Json& layout) {
  if (layout.contains("replicas_per_rank")) return layout["replicas_per_rank"].get<std::vector<int>>();
  const int ranks = layout["ranks"].get<int>();
  return std::vector<int>(static_cast<std::size_t>(ranks), layout["replicas"].get<int>() / ranks);
}

}  // namespace

const Json& all_cases() {
  static const Json cases = [] {
    std::ifstream file(CONFORMANCE_CASES);
    if (!file) throw std::runtime_error("cannot open " CONFORMANCE_CASES);
    return Json::parse(file);
  }();
  return cases;
}

std::string not_applicable(const Json& one_case) {
  static const std::map<std::string, std::string> reasons = {
      {"P22",
       "arguments are not one list but a pack, checked by the compiler: "
       "tests/compile_fail/run_with_a_missing_argument.cpp"},
  };
  const auto found = reasons.find(one_case["id"].get<std::string>());
  return found == reasons.end() ? "" : found->second;
}

std::string not_for_gpus(const Json& one_case) {
  static const std::set<std::string> names_cpus = {"P177", "P179", "P180"};
  return names_cpus.contains(one_case["id"].get<std::string>()) ? "it says on which CPUs its replicas are" : "";
}

std::vector<Placement> placements_of(const Json& one_case) {
  const auto& layout = one_case["layout"];
  const auto strategy = layout["strategy"].get<std::string>();
  const Placement own{strategy, counts_of(layout), false};
  std::vector<Placement> result{own};
  if (!may_move(one_case)) return result;
  const int replicas = layout["replicas"].get<int>();
  std::vector<std::vector<int>> counts{{replicas}, std::vector<int>(static_cast<std::size_t>(replicas), 1)};
  if (replicas > 2) counts.push_back({replicas - 1, 1});
  for (auto& one : counts) {
    if (strategy == "multi_worker_mirrored" && one == own.counts) continue;
    result.push_back({"multi_worker_mirrored", std::move(one), true});
  }
  return result;
}

CommunicatorOptions options_with_a_long_deadline() {
  CommunicatorOptions options;
  options.fail_after = std::chrono::minutes(2);
  options.warn_after = *options.fail_after / 2;
  return options;
}

std::vector<std::string> run_case(const Json& one_case, const Placement& placement, Communicator* communicator) {
  const auto id = one_case["id"].get<std::string>();
  const OwnedStrategy made = make_strategy(placement, communicator);
  World world(*made.strategy, one_case["given"]);
  const auto script_maker = scripts().find(id);
  const Script script = script_maker == scripts().end() ? Script{} : script_maker->second();
  std::vector<std::string> failures;
  std::size_t sentences = 0;
  for (std::size_t k = 0; k < one_case["action"].size(); ++k) {
    const Json& step = one_case["action"][k];
    Json result;
    if (step.is_string()) {
      if (sentences >= script.size()) {
        failures.push_back(fmt::format("{} step {} has no code: {}", id, k, step.dump()));
        return failures;
      }
      result = outcome_of([&] { return script[sentences](world); });
      ++sentences;
    } else {
      const auto call = calls().find(step["call"].get<std::string>());
      if (call == calls().end()) {
        failures.push_back(fmt::format("{} step {} has no code: {}", id, k, step.dump()));
        return failures;
      }
      result = outcome_of([&] { return call->second(world, step); });
    }
    const Viewpoint viewpoint{.rank = world.rank(),
                              .replicas = made.strategy->num_replicas_in_sync(),
                              .first_replica = world.first_replica(),
                              .local_replicas = world.local_replicas(),
                              .moved = placement.moved};
    const auto found = difference(one_case["expect"][k], result, viewpoint);
    if (found) failures.push_back(fmt::format("{} step {}, rank {}: {}\n{}", id, k, world.rank(), step.dump(), *found));
  }
  if (communicator != nullptr) leave_together(*made.strategy);
  return failures;
}

}  // namespace lockstep::conformance
