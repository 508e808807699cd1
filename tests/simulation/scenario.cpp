// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>

namespace lockstep::simulation {
namespace {

constexpr std::array<std::string_view, 10> names{"all_reduce", "reduce",  "reduce_scatter", "all_gather", "gather",
                                                 "broadcast",  "barrier", "scatter",        "all_to_all", "messages"};
constexpr int common_kinds = 7;

/// Small data travels with the agreement, larger data in one step, and the largest in several turns.
constexpr std::array<int, 6> counts{0, 1, 3, 200, 3000, 20000};

Operation any_operation(Random& random, int ranks) {
  Operation operation;
  operation.kind = operation.common_kind = static_cast<Kind>(random.below(common_kinds));
  operation.count = operation.kind == Kind::barrier ? 0 : counts[random.below(counts.size())];
  operation.root = random.between(0, ranks - 1);
  operation.is_asynchronous = random.one_in(4);
  return operation;
}

bool has_root(Kind kind) {
  return kind == Kind::reduce || kind == Kind::gather || kind == Kind::broadcast || kind == Kind::scatter;
}

/// Whether ranks that make one of these calls each must get an error.
bool differ(const Operation& left, const Operation& right) {
  return left.kind != right.kind || left.count != right.count || (has_root(left.kind) && left.root != right.root);
}

Fault any_fault(Random& random, const Scenario& scenario) {
  Fault fault;
  fault.kind =
      static_cast<FaultKind>(1 + random.below(5));  // FaultKind::dies and lacks_memory take the place of others
  fault.rank = random.between(0, scenario.ranks() - 1);
  fault.operation = random.between(0, static_cast<int>(scenario.operations.size()) - 1);
  fault.turns = random.below(random.one_in(2) ? 12 : 200) + 1;
  fault.delay = scenario.fail_after * random.between(1, 9) / 10 +
                (random.one_in(2) ? scenario.fail_after * 2 : std::chrono::milliseconds(0));
  fault.other = any_operation(random, scenario.ranks());
  const auto at = static_cast<std::size_t>(fault.operation);
  while (!differ(fault.other, scenario.operations[at])) fault.other = any_operation(random, scenario.ranks());
  return fault;
}

/// Parts that have random numbers of their own, so that they change nothing in the others.
enum class Part : std::uint8_t {
  delays,
  deaths,
  departures,
  mappings,
  places,
  recovery,
  calls,
  requests,
  turns,
  messages,
  creation,
  steps,
  memory,
  processors,
  privacy,
  pauses,
  transfers,
};

Random random_of(std::uint64_t seed, Part part) {
  return Random(seed * 64 + static_cast<std::uint64_t>(part) + 0x9e3779b97f4a7c15U);
}

Delays any_delays(Random& random, const Scenario& scenario) {
  using std::chrono::microseconds;
  constexpr std::array<microseconds, 4> most{microseconds(0), microseconds(20), microseconds(1000),
                                             microseconds(20000)};
  constexpr std::array<std::uint64_t, 4> slow_one_in{0, 100, 20, 3};
  return {most[random.below(most.size())], slow_one_in[random.below(slow_one_in.size())],
          scenario.fail_after * random.between(1, 15) / 100};
}

/// Puts other calls in place of some operations.
void change_calls(Random& random, Scenario& scenario) {
  for (std::size_t k = 0; k < scenario.operations.size(); ++k) {
    if (!random.one_in(3)) continue;
    Operation changed = scenario.operations[k];
    switch (random.below(5)) {
      case 0: changed.kind = Kind::scatter; break;
      case 1: changed.kind = Kind::all_to_all; break;
      case 2: changed.way = Way::run_plan; break;
      case 3: changed.way = Way::duplicate; break;
      default: changed.way = Way::split; break;
    }
    if (changed.way != Way::call) changed.kind = Kind::all_reduce;
    const bool is_other_call = std::any_of(scenario.faults.begin(), scenario.faults.end(), [&](const Fault& fault) {
      return fault.kind == FaultKind::calls_other && fault.operation == static_cast<int>(k) &&
             !differ(fault.other, changed);
    });
    if (!is_other_call) scenario.operations[k] = changed;
  }
}

/// As Watchdog has it.
std::chrono::milliseconds heartbeat_interval(const Scenario& scenario) {
  return std::min(scenario.warn_after, scenario.fail_after / 2);
}

}  // namespace

std::chrono::milliseconds Delays::slowest() const {
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::max(most, slow_one_in == 0 ? std::chrono::microseconds(0) : most_slow));
}

int Scenario::nodes() const {
  int count = 0;
  for (int rank = 0; rank < ranks(); ++rank) count += node_leaders[static_cast<std::size_t>(rank)] == rank ? 1 : 0;
  return count;
}

int Scenario::first_open(int operation) const {
  while (operation > 0 && operations[static_cast<std::size_t>(operation) - 1].is_left_open) --operation;
  return operation;
}

Scenario scenario_of(std::uint64_t seed, const Limits& limits) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  const int ranks = random.between(limits.least_ranks, limits.most_ranks);
  const int nodes = random.between(1, std::min(ranks, limits.most_nodes));
  for (int rank = 0; rank < ranks; ++rank) {
    const int node = rank * nodes / ranks;
    const bool is_first = rank == 0 || node != (rank - 1) * nodes / ranks;
    scenario.node_leaders.push_back(is_first ? rank : scenario.node_leaders.back());
    scenario.replicas.push_back(random.one_in(4) ? 2 : 1);
  }
  const int operations = random.between(1, limits.most_operations);
  for (int k = 0; k < operations; ++k) scenario.operations.push_back(any_operation(random, ranks));
  const int faults = random.between(0, limits.most_faults);
  for (int k = 0; k < faults; ++k) {
    const Fault fault = any_fault(random, scenario);
    const auto is_of_rank = [&](const Fault& each) { return each.rank == fault.rank; };
    if (std::none_of(scenario.faults.begin(), scenario.faults.end(), is_of_rank)) scenario.faults.push_back(fault);
  }
  constexpr std::array<std::uint64_t, 4> preemptions{0, 64, 8, 1};
  scenario.preempts_one_in = preemptions[random.below(preemptions.size())];
  constexpr std::array<int, 3> tenths{100, 3, 1};
  scenario.warn_after = scenario.fail_after * tenths[random.below(tenths.size())] / 10;
  scenario.begins_with_failure = random.one_in(3);
  Random of_delays = random_of(seed, Part::delays);
  scenario.delays = any_delays(of_delays, scenario);
  Random of_deaths = random_of(seed, Part::deaths);
  for (Fault& fault : scenario.faults) {
    if (fault.kind == FaultKind::stops && of_deaths.one_in(2)) fault.kind = FaultKind::dies;
  }
  constexpr std::array<std::uint64_t, 3> stale{0, 4, 40};
  scenario.stale_one_in = stale[seed % stale.size()];
  Random of_places = random_of(seed, Part::places);
  scenario.ranks_of_domain = of_places.one_in(2) ? 0 : of_places.between(1, 5);
  Random of_mappings = random_of(seed, Part::mappings);
  scenario.has_mappings = of_mappings.one_in(2);
  for (Fault& fault : scenario.faults) {
    const bool can_be = fault.kind == FaultKind::stops || fault.kind == FaultKind::dies;
    fault.is_in_work = can_be && scenario.has_mappings && of_mappings.one_in(2);
  }
  scenario.leaves_after_failure = random_of(seed, Part::departures).one_in(2);
  scenario.recovers_at_once = !scenario.leaves_after_failure && random_of(seed, Part::recovery).one_in(2);
  if (Random of_calls = random_of(seed, Part::calls); of_calls.one_in(3)) change_calls(of_calls, scenario);
  if (Random of_requests = random_of(seed, Part::requests); of_requests.one_in(3)) {
    for (Operation& operation : scenario.operations)
      operation.is_left_open = of_requests.one_in(2) && operation.way == Way::call;
  }
  if (Random of_messages = random_of(seed, Part::messages); ranks > 1 && of_messages.one_in(3)) {
    for (Operation& operation : scenario.operations) {
      if (operation.is_common() && !operation.is_left_open && of_messages.one_in(3)) operation.kind = Kind::messages;
    }
    for (Fault& fault : scenario.faults) {  // messages that no other rank expects, now or in a later operation
      const bool is_of_messages = scenario.operations[static_cast<std::size_t>(fault.operation)].kind == Kind::messages;
      if (!is_of_messages || !of_messages.one_in(2)) continue;
      fault.other.kind = Kind::messages;
      fault.other.count = 7;
    }
  }
  if (Random of_steps = random_of(seed, Part::steps); of_steps.one_in(3)) {
    for (Operation& operation : scenario.operations) {
      if (!operation.is_common() || operation.is_left_open || !of_steps.one_in(4)) continue;
      operation.kind = Kind::all_reduce;
      operation.way = Way::step;
    }
  }
  Random of_memory = random_of(seed, Part::memory);
  for (Fault& fault : scenario.faults) {
    fault.common_kind = fault.kind;
    if (of_memory.one_in(6)) fault.kind = FaultKind::lacks_memory;
  }
  scenario.is_created_together = random_of(seed, Part::creation).one_in(2);
  constexpr std::size_t short_turn = 20'000;
  scenario.turn_bytes = random_of(seed, Part::turns).one_in(2) ? short_turn : 0;
  constexpr int many_processors = 64;
  if (random_of(seed, Part::processors).one_in(4)) scenario.processors = many_processors;
  scenario.hides_memory = random_of(seed, Part::privacy).one_in(4);
  scenario.has_connections = random_of(seed, Part::transfers).one_in(2);
  Random of_pauses = random_of(seed, Part::pauses);
  for (Fault& fault : scenario.faults) {
    const bool can_be =
        fault.kind == FaultKind::aborts || fault.kind == FaultKind::leaves || fault.kind == FaultKind::calls_other;
    fault.has_pause = can_be && of_pauses.one_in(2);
  }
  for (Operation& operation : scenario.operations) {
    operation.has_many = scenario.hides_memory && operation.kind == Kind::messages;
    if (operation.has_many) operation.is_asynchronous = true;  // one after the other, they would be late
  }
  return scenario;
}

Partners partners(const Operation& operation, int rank, int ranks) {
  const int distance = 1 + operation.root % (ranks - 1);
  return {(rank + distance) % ranks, (rank - distance + ranks) % ranks};
}

std::vector<std::vector<int>> parts(const Scenario& scenario, const Operation& operation) {
  const int ranks = scenario.ranks();
  if (operation.way == Way::duplicate) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  std::vector<std::vector<int>> parts(2);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != operation.root || ranks < 3) parts[static_cast<std::size_t>(rank % 2)].push_back(rank);
  }
  if (operation.root % 2 == 1) {
    for (std::vector<int>& part : parts) std::reverse(part.begin(), part.end());
  }
  return parts;
}

std::string name_of_part(int number, std::size_t part) { return fmt::format("part {} of {}", part, number); }

bool begins_in_creation(const Scenario& scenario, const Fault& fault) {
  const bool can_be = fault.kind == FaultKind::stops || fault.kind == FaultKind::dies ||
                      fault.kind == FaultKind::is_late || fault.kind == FaultKind::lacks_memory;
  return scenario.is_created_together && fault.operation == 0 && can_be &&
         (fault.kind == FaultKind::lacks_memory || !fault.is_in_work);
}

std::string text_of_abort(int rank) { return fmt::format("no more bread on rank {}", rank); }

int turn_of_work(const Fault& fault) { return static_cast<int>(fault.turns % 4) + 1; }

std::chrono::milliseconds lateness(const Scenario& scenario, const Fault& fault) {
  if (fault.delay > scenario.fail_after && !fault.has_pause) return fault.delay;
  const std::chrono::milliseconds delay = fault.delay % (2 * scenario.fail_after);
  const auto most =
      scenario.is_late_beyond_heartbeats ? scenario.fail_after * 7 / 10 : heartbeat_interval(scenario) * 9 / 10;
  const std::chrono::milliseconds alone = std::min(delay, most - 3 * scenario.delays.slowest());
  // two late ranks add up where one waits for the other in a message, for which a third one does not wait
  const auto is_late = [&scenario](const Fault& each) {
    return each.has_pause || (each.kind == FaultKind::is_late && each.delay <= scenario.fail_after);
  };
  const bool may_add_up = std::any_of(scenario.operations.begin(), scenario.operations.end(),
                                      [](const Operation& each) { return each.kind == Kind::messages; });
  return may_add_up ? alone / std::max<std::ptrdiff_t>(
                                  std::count_if(scenario.faults.begin(), scenario.faults.end(), is_late), 1)
                    : alone;
}

std::string describe(const Operation& operation) {
  constexpr std::array<std::string_view, 5> ways{"", "two runs of a prepared ", "duplicate and its ", "split and its ",
                                                 "a strategy and its step with "};
  std::string text = fmt::format("{}{}{}", ways[static_cast<std::size_t>(operation.way)],
                                 names[static_cast<std::size_t>(operation.kind)],
                                 operation.is_left_open      ? "_async, left open,"
                                 : operation.is_asynchronous ? "_async"
                                                             : "");
  if (operation.kind != Kind::barrier) text += fmt::format(" of {}", operation.count);
  if (operation.kind == Kind::messages) text += fmt::format(", distance 1 + {} % (ranks - 1)", operation.root);
  if (has_root(operation.kind)) text += fmt::format(", root {}", operation.root);
  return text;
}

std::string describe(const Scenario& scenario, const Fault& fault) {
  const std::string who = fmt::format("rank {} ", fault.rank);
  const std::string when =
      begins_in_creation(scenario, fault) ? "the creation" : fmt::format("operation {}", fault.operation);
  const std::string pause =
      fault.has_pause ? fmt::format(", after a pause of {} ms", lateness(scenario, fault).count()) : "";
  switch (fault.kind) {
    case FaultKind::dies:
    case FaultKind::stops: {
      const std::string_view what = fault.kind == FaultKind::dies ? "dies" : "stops";
      if (fault.is_in_work)
        return who + fmt::format("{} in turn {} of its work from operation {} on", what, turn_of_work(fault),
                                 fault.operation);
      return who + fmt::format("{} {} turns after {} begins", what, fault.turns, when);
    }
    case FaultKind::is_late: return who + fmt::format("is {} ms late for {}", lateness(scenario, fault).count(), when);
    case FaultKind::aborts: return who + fmt::format("aborts at operation {}", fault.operation) + pause;
    case FaultKind::leaves: return who + fmt::format("leaves at operation {}", fault.operation) + pause;
    case FaultKind::calls_other:
      return who + fmt::format("calls {} in operation {}", describe(fault.other), fault.operation) + pause;
    case FaultKind::lacks_memory:
      return who + fmt::format("has no memory for allocation {} after {} begins", fault.turns, when);
  }
  return who;
}

std::string describe(const Scenario& scenario) {
  const Delays& delays = scenario.delays;
  std::string text = fmt::format(
      "{} ranks{} on {} nodes{} (leaders {}), replicas {}, a switch at one in {} words, warnings after {} ms, {} "
      "processors{}{}{}{}{}{}\n"
      "messages take at most {} us, one in {} at most {} us\n",
      scenario.ranks(), scenario.has_mappings ? " with mappings" : "", scenario.nodes(),
      scenario.ranks_of_domain == 0 ? "" : fmt::format(" with caches of {} ranks", scenario.ranks_of_domain),
      fmt::join(scenario.node_leaders, " "), fmt::join(scenario.replicas, " "), scenario.preempts_one_in,
      scenario.warn_after.count(), scenario.processors, scenario.is_created_together ? ", created together" : "",
      scenario.begins_with_failure ? ", begins with a failure" : "",
      scenario.leaves_after_failure ? ", ranks leave after an error"
      : scenario.recovers_at_once   ? ", ranks recover at once"
                                    : "",
      scenario.turn_bytes > 0 ? ", short turns" : "", scenario.hides_memory ? ", private memory" : "",
      scenario.has_connections ? ", connections" : "", delays.most.count(), delays.slow_one_in,
      delays.most_slow.count());
  for (std::size_t k = 0; k < scenario.operations.size(); ++k)
    text += fmt::format("operation {}: {}\n", k, describe(scenario.operations[k]));
  for (const Fault& fault : scenario.faults) text += describe(scenario, fault) + "\n";
  return text;
}

}  // namespace lockstep::simulation
