// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/cuts.hpp"

#include "races/races.hpp"
#include "schedule/levels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace lockstep::simulation {
namespace {

/// The number behind "name=", less than `count`; -1 if `part` is another cut or the number is too large.
int number_of(std::string_view part, std::string_view name, int count) {
  if (!part.starts_with(name)) return -1;
  part.remove_prefix(name.size());
  int number = -1;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  return error == std::errc() && end == part.data() + part.size() && number < count ? number : -1;
}

bool makes_messages(const Operation& operation) { return operation.kind == Kind::messages; }
bool makes_step(const Operation& operation) { return operation.way == Way::step; }
bool makes_other_call(const Operation& operation) {
  return !operation.is_common() && !makes_messages(operation) && !makes_step(operation);
}

/// The operations for which `is_chosen` holds become those of common kinds.
void restore_common_kinds(Scenario& scenario, bool (*is_chosen)(const Operation&)) {
  for (Operation& operation : scenario.operations) {
    if (!is_chosen(operation)) continue;
    operation.kind = operation.common_kind;
    operation.way = Way::call;
  }
}

void cut_rank(Scenario& scenario, int rank) {
  const auto at = static_cast<std::ptrdiff_t>(rank);
  // if this rank leads its node, the next rank of the node does then, and gets the number of this rank
  for (int& leader : scenario.node_leaders) leader -= leader > rank ? 1 : 0;
  scenario.node_leaders.erase(scenario.node_leaders.begin() + at);
  scenario.replicas.erase(scenario.replicas.begin() + at);
  const auto shift = [&](int& other) { other = other > rank ? other - 1 : std::min(other, scenario.ranks() - 1); };
  for (Operation& operation : scenario.operations) shift(operation.root);
  std::erase_if(scenario.faults, [rank](const Fault& fault) { return fault.rank == rank; });
  for (Fault& fault : scenario.faults) {
    shift(fault.rank);
    shift(fault.other.root);
  }
}

void cut_before(Scenario& scenario, int operation) {
  scenario.operations.erase(scenario.operations.begin(), scenario.operations.begin() + operation);
  std::erase_if(scenario.faults, [operation](const Fault& fault) { return fault.operation < operation; });
  for (Fault& fault : scenario.faults) fault.operation -= operation;
}

void cut_after(Scenario& scenario, int operation) {
  scenario.operations.resize(static_cast<std::size_t>(operation) + 1);
  std::erase_if(scenario.faults, [operation](const Fault& fault) { return fault.operation > operation; });
}

}  // namespace

bool cut(Scenario& scenario, const std::string& part) {
  const int operations = static_cast<int>(scenario.operations.size());
  if (part == "calls") {
    restore_common_kinds(scenario, makes_other_call);
  } else if (part == "messages") {
    restore_common_kinds(scenario, makes_messages);
    for (Fault& fault : scenario.faults) fault.other.kind = fault.other.common_kind;
  } else if (part == "steps") {
    restore_common_kinds(scenario, makes_step);
  } else if (part == "requests") {
    for (Operation& operation : scenario.operations) operation.is_left_open = false;
  } else if (part == "delays") {
    scenario.delays = {};
  } else if (part == "deaths") {
    for (Fault& fault : scenario.faults) {
      for (FaultKind* const kind : {&fault.kind, &fault.common_kind})
        *kind = *kind == FaultKind::dies ? FaultKind::stops : *kind;
    }
  } else if (part == "memory") {
    for (Fault& fault : scenario.faults) fault.kind = fault.common_kind;
  } else if (part == "pauses") {
    for (Fault& fault : scenario.faults) fault.has_pause = false;
  } else if (part == "departures") {
    scenario.leaves_after_failure = false;
  } else if (part == "lateness") {
    scenario.is_late_beyond_heartbeats = false;
  } else if (part == "creation") {
    scenario.is_created_together = false;
  } else if (part == "first-failure") {
    scenario.begins_with_failure = false;
  } else if (part == "preemption") {
    scenario.preempts_one_in = 0;
  } else if (part == "recovery") {
    scenario.recovers_at_once = false;
  } else if (part == "places") {
    scenario.ranks_of_domain = 0;
  } else if (part == "mappings") {
    scenario.has_mappings = false;
    for (Fault& fault : scenario.faults) fault.is_in_work = false;
  } else if (part == "work") {
    for (Fault& fault : scenario.faults) fault.is_in_work = false;
  } else if (part == "turns") {
    scenario.turn_bytes = 0;
  } else if (part == "private") {
    scenario.hides_memory = false;
    for (Operation& operation : scenario.operations) operation.has_many = false;
  } else if (part == "connections") {
    scenario.has_connections = false;
  } else if (part == "processors") {
    scenario.processors = Scenario::few_processors;
  } else if (part == "stale") {
    scenario.stale_one_in = 0;
  } else if (part == "replicas") {
    std::fill(scenario.replicas.begin(), scenario.replicas.end(), 1);
  } else if (const int rank = number_of(part, "rank=", scenario.ranks()); rank >= 0 && scenario.ranks() > 2) {
    cut_rank(scenario, rank);
  } else if (const int k = number_of(part, "fault=", static_cast<int>(scenario.faults.size())); k >= 0) {
    scenario.faults.erase(scenario.faults.begin() + k);
  } else if (const int first = number_of(part, "before=", operations); first >= 0) {
    cut_before(scenario, first);
  } else if (const int last = number_of(part, "after=", operations); last >= 0) {
    cut_after(scenario, last);
  } else {
    return false;
  }
  return true;
}

std::vector<std::string> possible_cuts(const Scenario& scenario) {
  std::vector<std::string> cuts;
  int first = static_cast<int>(scenario.operations.size());
  int last = 0;
  for (std::size_t k = 0; k < scenario.faults.size(); ++k) {
    cuts.push_back(fmt::format("fault={}", k));
    first = std::min(first, scenario.faults[k].operation);
    last = std::max(last, scenario.faults[k].operation);
  }
  const int end = static_cast<int>(scenario.operations.size());
  for (const int operation : {last, last + 1, end / 2}) {
    if (operation + 1 < end) cuts.push_back(fmt::format("after={}", operation));
  }
  for (const int operation : {first, first - 1, end / 2}) {
    if (operation > 0 && operation < end) cuts.push_back(fmt::format("before={}", operation));
  }
  for (int rank = scenario.ranks() - 1; rank >= 0 && scenario.ranks() > 2; --rank) {
    const auto is_of_rank = [rank](const Fault& fault) { return fault.rank == rank; };
    if (std::none_of(scenario.faults.begin(), scenario.faults.end(), is_of_rank))
      cuts.push_back(fmt::format("rank={}", rank));
  }
  const auto has_operation = [&scenario](bool (*is_it)(const Operation&)) {
    return std::any_of(scenario.operations.begin(), scenario.operations.end(), is_it);
  };
  if (has_operation(makes_other_call)) cuts.emplace_back("calls");
  if (has_operation(makes_messages)) cuts.emplace_back("messages");
  if (has_operation(makes_step)) cuts.emplace_back("steps");
  if (has_operation([](const Operation& each) { return each.is_left_open; })) cuts.emplace_back("requests");
  const auto has_fault = [&scenario](bool (*is_it)(const Fault&)) {
    return std::any_of(scenario.faults.begin(), scenario.faults.end(), is_it);
  };
  if (has_fault([](const Fault& each) { return each.kind == FaultKind::lacks_memory; })) cuts.emplace_back("memory");
  if (has_fault([](const Fault& each) { return each.has_pause; })) cuts.emplace_back("pauses");
  if (has_fault([](const Fault& each) { return each.is_in_work; })) cuts.emplace_back("work");
  if (scenario.is_created_together) cuts.emplace_back("creation");
  if (scenario.begins_with_failure) cuts.emplace_back("first-failure");
  if (scenario.leaves_after_failure) cuts.emplace_back("departures");
  if (scenario.delays.slowest().count() > 0) cuts.emplace_back("delays");
  if (scenario.preempts_one_in > 0) cuts.emplace_back("preemption");
  if (scenario.turn_bytes > 0) cuts.emplace_back("turns");
  if (scenario.hides_memory) cuts.emplace_back("private");
  if (scenario.has_connections) cuts.emplace_back("connections");
  if (scenario.processors > Scenario::few_processors) cuts.emplace_back("processors");
  if (scenario.recovers_at_once) cuts.emplace_back("recovery");
  if (scenario.has_mappings) cuts.emplace_back("mappings");
  if (scenario.ranks_of_domain > 0 && scenario.ranks() > detail::Levels::most_neighbours) cuts.emplace_back("places");
  if (scenario.stale_one_in > 0 && races::is_available()) cuts.emplace_back("stale");
  if (std::any_of(scenario.replicas.begin(), scenario.replicas.end(), [](int count) { return count > 1; }))
    cuts.emplace_back("replicas");
  return cuts;
}

}  // namespace lockstep::simulation
