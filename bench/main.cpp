// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf: how fast all_reduce is here, beside MPI's, with every result checked.

#include "machine.hpp"
#include "measurement.hpp"
#include "option_values.hpp"
#include "options.hpp"
#include "ping_pong.hpp"
#include "report.hpp"
#include "simulation.hpp"

#include <lockstep/cluster/environment.hpp>

#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace perf {
namespace {

enum ExitCode { done = 0, wrong_result = 1, bad_option = 2 };

/// Runs `step` on every rank. Where an option is refused, all ranks learn of it, and the first of those that refuse
/// says why. Collective over the job; whether no rank refused.
[[nodiscard]] bool all_accept(const std::function<void()>& step) {
  std::string text;
  try {
    step();
  } catch (const OptionError& error) {
    text = error.what();
  }
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int refusing = text.empty() ? size : rank;
  int first = size;
  MPI_Allreduce(&refusing, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == rank) fmt::print(stderr, "lockstep-perf: {}\n", text);
  return first == size;
}

/// Before hours of measuring, not after.
void check_json_file(const Options& options, int rank) {
  if (rank != 0 || options.json.empty()) return;
  if (!std::ofstream(options.json, std::ios::app)) {
    refuse("--json \"{}\": the file cannot be written; give a name in a folder that exists and may be written",
           options.json);
  }
}

void check_memory(const Options& options, int ranks_of_node) {
  const std::int64_t available = available_memory_bytes();
  const std::int64_t needed = memory_bytes(options) * ranks_of_node;
  if (available == 0 || needed <= available) return;
  constexpr double mib = 1 << 20;
  refuse(
      "-e/--maxbytes {}: the {} ranks of a node would need {:.0f} MiB of memory, of which {:.0f} MiB are free; give "
      "less",
      options.max_bytes, ranks_of_node, static_cast<double>(needed) / mib, static_cast<double>(available) / mib);
}

/// Whether all results are right.
bool measure(const Options& options, const lockstep::Environment& environment, const OwnComm& node) {
  const Machine machine = describe_machine(environment, node);
  PingPong ping_pong(node);
  Report report(options, machine, ping_pong.round_trip_us(), environment.rank() == 0);
  bool is_right = true;
  {
    Measurement measurement(options);
    for (Case what : cases(options)) {
      std::vector<Measured> line;
      for (const Placement placement : options.placements) {
        what.placement = placement;
        line.push_back({what, what.is_possible() ? std::optional(measurement.run(what)) : std::nullopt});
        is_right = is_right && (!line.back().result || line.back().result->is_right());
      }
      report.line(line);
    }
  }
  report.finish(ping_pong.round_trip_us());
  return is_right;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  perf::Options options;
  if (!perf::all_accept([&] { options = perf::parse_options(argc, argv); })) return perf::bad_option;
  if (!options.help.empty()) {
    if (environment.rank() == 0) std::fputs(options.help.c_str(), stdout);
    return perf::done;
  }
  if (options.simulate) {
    const bool is_simulated = perf::all_accept([&] {
      if (environment.rank() == 0) perf::simulate(*options.simulate, options.sizes_bytes());
    });
    return is_simulated ? perf::done : perf::bad_option;
  }
  const perf::OwnComm node(perf::node_of_this_rank());
  const bool is_possible = perf::all_accept([&] {
    perf::check_json_file(options, environment.rank());
    perf::check_memory(options, node.size());
  });
  if (!is_possible) return perf::bad_option;
  return perf::measure(options, environment, node) ? perf::done : perf::wrong_result;
}
