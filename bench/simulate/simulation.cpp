// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/simulate/simulation.hpp"

#include "apps/options/counted.hpp"
#include "bench/harness/option_values.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/build_info.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <sstream>
#include <vector>

namespace perf {
namespace {

constexpr std::string_view simulation_rule =
    "give ranks=N (1 to 1000000), nodes=N (1 to ranks; else one per rank) and, where the defaults do not fit, "
    "latency_us=X (1), gbit=X (100), overhead_us=X (0.25), memory_gbs=X (40), all above 0, and radices=LIST, with "
    "commas "
    "between them, such as ranks=1024,nodes=128,latency_us=1,gbit=100";

double positive(std::string_view option, std::string_view text, std::string_view key, std::string_view digits) {
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !(value > 0) || !(value <= 1e9))
    refuse("{} \"{}\": {} is \"{}\"; {}", option, text, key, digits, simulation_rule);
  return value;
}

int whole(std::string_view option, std::string_view text, std::string_view key, std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 1 || value > 1'000'000)
    refuse("{} \"{}\": {} is \"{}\"; {}", option, text, key, digits, simulation_rule);
  return value;
}

/// The time of a schedule alone: MPI libraries do not agree on the call first.
double schedule_us(const lockstep::ModelledCluster& cluster, std::int64_t bytes, std::string_view radices) {
  const auto row = lockstep::simulate_all_reduce(cluster, bytes, radices, 1);
  return row.time_us - row.agreement_us;
}

/// Recursive doubling or halving/doubling, whichever is faster, in one segment; if the number of ranks is not a power
/// of two, with a fold between neighbours before and after. MPI libraries choose between these two (Thakur et al.
/// 2005).
double radix_two_us(const lockstep::ModelledCluster& cluster, std::int64_t bytes) {
  lockstep::ModelledCluster folded = cluster;
  folded.ranks = static_cast<int>(std::bit_floor(static_cast<unsigned>(cluster.ranks)));
  folded.nodes = std::min(cluster.nodes, folded.ranks);
  std::string halving;
  for (int size = 1; size < folded.ranks; size *= 2) halving += halving.empty() ? "2" : ".2";
  const double us =
      std::min(schedule_us(folded, bytes, "f2"), schedule_us(folded, bytes, halving.empty() ? "2" : halving));
  if (folded.ranks == cluster.ranks) return us;
  lockstep::ModelledCluster pair = cluster;
  pair.ranks = 2;
  pair.nodes = cluster.nodes < cluster.ranks ? 1 : 2;
  // one message with all elements, added; and one back
  const double added_us = 3 * static_cast<double>(bytes) / (cluster.memory_gbs * 1e3);
  return us + 2 * schedule_us(pair, bytes, "r2") - added_us;
}

}  // namespace

Simulation parse_simulation(std::string_view option, const std::string& text) {
  Simulation result;
  auto& cluster = result.cluster;
  cluster.ranks = cluster.nodes = 0;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string key = entry.substr(0, equals);
    const std::string value = equals < entry.size() ? entry.substr(equals + 1) : std::string();
    if (key == "ranks") {
      cluster.ranks = whole(option, text, key, value);
    } else if (key == "nodes") {
      cluster.nodes = whole(option, text, key, value);
    } else if (key == "latency_us") {
      cluster.latency_us = positive(option, text, key, value);
    } else if (key == "gbit") {
      cluster.gbit = positive(option, text, key, value);
    } else if (key == "overhead_us") {
      cluster.overhead_us = positive(option, text, key, value);
    } else if (key == "memory_gbs") {
      cluster.memory_gbs = positive(option, text, key, value);
    } else if (key == "radices") {
      result.radices = value;
    } else {
      refuse("{} \"{}\": \"{}\" is not one of its settings; {}", option, text, key, simulation_rule);
    }
  }
  if (cluster.ranks == 0) refuse("{} \"{}\": ranks is missing; {}", option, text, simulation_rule);
  if (cluster.nodes == 0) cluster.nodes = cluster.ranks;
  if (cluster.nodes > cluster.ranks)
    refuse("{} \"{}\": nodes is {}, but ranks only {}; {}", option, text, cluster.nodes, cluster.ranks,
           simulation_rule);
  try {
    (void)lockstep::simulate_all_reduce({}, 8, result.radices);
  } catch (const lockstep::Error& error) {
    refuse("{} \"{}\": {}", option, text, error.text());
  }
  return result;
}

void simulate(const Simulation& simulation, std::span<const std::int64_t> sizes_bytes) {
  const auto& cluster = simulation.cluster;
  fmt::print(
      "# lockstep-perf {}: SIMULATED all_reduce, nothing is measured\n"
      "# cluster     {} on {}; one port per node: {} us, {} Gbit/s each way\n"
      "# processor   {} us per send and receive; sums at {} GB/s of memory\n"
      "# radices     {}; K: split among K, n: the ranks of a node, rK: replicate among K\n"
      "# time        the agreement of all ranks on the call and the schedule, or the agreement with small data\n"
      "# radix two   without an agreement: the better of halving/doubling and recursive doubling, in one segment: what "
      "MPI libraries do\n#\n",
      lockstep::build_info().version, options::counted(cluster.ranks, "rank"), options::counted(cluster.nodes, "node"),
      cluster.latency_us, cluster.gbit, cluster.overhead_us, cluster.memory_gbs,
      simulation.radices.empty() ? "the planner's" : "given");
  fmt::print("#{:>10} {:>12} {:>10} {:>14} {:>12} {:>7}  {:>8}  {}\n", "size", "time", "messages", "bytes", "radix two",
             "ratio", "segments", "radices");
  fmt::print("#{:>10} {:>12} {:>10} {:>14} {:>12} {:>7}  {:>8}  {}\n", "(B)", "(us)", "(per rank)", "(per rank)",
             "(us)", "", "", "(nearest first)");
  for (const std::int64_t bytes : sizes_bytes) {
    const auto row = lockstep::simulate_all_reduce(cluster, bytes, simulation.radices);
    const double two_us = radix_two_us(cluster, bytes);
    fmt::print(" {:>10} {:>12.2f} {:>10} {:>14} {:>12.2f} {:>7.2f}  {:>8}  {}\n", bytes, row.time_us, row.messages,
               row.bytes, two_us, two_us > 0 ? row.time_us / two_us : 1, row.segments,
               row.radices.empty() ? "-" : row.radices);
  }
}

}  // namespace perf
