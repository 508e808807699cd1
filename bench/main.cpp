// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf: how fast collectives are here, beside MPI's, with every result checked.

#include "agenda.hpp"
#include "baseline.hpp"
#include "input_rate.hpp"
#include "machine.hpp"
#include "measurement.hpp"
#include "mpi_at_level.hpp"
#include "option_values.hpp"
#include "options.hpp"
#include "ping_pong.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "selection.hpp"
#include "simulation.hpp"
#include "strategy_cost.hpp"

#include <lockstep/cluster/environment.hpp>
#include <lockstep/interop/mpi.hpp>

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
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
void check_files(const Options& options, int rank) {
  if (rank != 0) return;
  const auto check = [](const char* option, const std::string& name) {
    if (name.empty() || std::ofstream(name, std::ios::app)) return;
    refuse("{} \"{}\": the file cannot be written; give a name in a folder that exists and may be written", option,
           name);
  };
  check("--json", options.json);
  check("--csv", options.csv);
  if (options.plot.empty()) return;
  require_gnuplot(options.plot);
  if (options.plot != "-") check("--plot", options.plot);
}

void check_job(const Options& options, const Job& job) {
  if (job.root < job.ranks) return;
  refuse("-r/--root \"{}\": the ranks are 0 to {}; give one of these", options.root, job.ranks - 1);
}

void check_memory(const Options& options, const Agenda& agenda, const Job& job, int ranks_of_node) {
  const std::int64_t available = available_memory_bytes();
  const std::int64_t needed = memory_bytes(agenda, options, job) * ranks_of_node;
  if (available == 0 || needed <= available) return;
  constexpr double mib = 1 << 20;
  refuse("{} {}: the {} ranks of a node would need {:.0f} MiB of memory, of which {:.0f} MiB are free; give less",
         options.list.empty() ? "-e/--maxbytes" : "--list",
         options.list.empty() ? std::to_string(options.max_bytes) : options.list, ranks_of_node,
         static_cast<double>(needed) / mib, static_cast<double>(available) / mib);
}

Baseline read_baseline(const Options& options, const Agenda& agenda, const Job& job) {
  if (job.rank != 0 || options.baseline.empty()) return {};
  return {options.baseline, job.ranks, identities_of(agenda, options, job)};
}

/// The same call at each placement that was asked for.
Line line_of(Measurement& measurement, Case what, const Options& options, const Job& job) {
  Line line{.identity = identity_of(what, job), .bytes = what.bytes()};
  if (traits(what.collective).has_root) line.root = job.root;
  for (const Placement placement : options.placements) {
    what.placement = placement;
    line.cells.push_back(what.is_possible() ? std::optional(measurement.run(what)) : std::nullopt);
  }
  return line;
}

std::vector<Line> lines_of(Measurement& measurement, const ListCase& what) {
  std::vector<Line> lines;
  for (Row& row : measurement.run(what)) {
    lines.push_back({.identity = row.identity, .bytes = row.bytes, .tensors = row.tensors});
    lines.back().cells.emplace_back(std::move(row));
  }
  return lines;
}

/// Measures what is on the agenda, and the cache line's way before and after each line.
class Run {
 public:
  Run(const Options& options, const Machine& machine, const Baseline& baseline, const Job& job, const OwnComm& node)
      : ping_pong_(node),
        round_trip_us_(ping_pong_.round_trip_us(long_time)),
        report_(options, machine, baseline, round_trip_us_, job.rank == 0) {}

  void add(Line line) {
    const std::optional<double> before = round_trip_us_;
    round_trip_us_ = ping_pong_.round_trip_us(short_time);
    add(std::move(line), before);
  }
  /// Lines of contestants that took turns with each other.
  void add(std::vector<Line> lines) {
    const std::optional<double> before = round_trip_us_;
    round_trip_us_ = ping_pong_.round_trip_us(short_time);
    for (Line& line : lines) add(std::move(line), before);
  }
  /// Whether all results are right.
  [[nodiscard]] bool finish() {
    report_.finish(ping_pong_.round_trip_us(long_time));
    return is_right_;
  }

 private:
  static constexpr std::chrono::milliseconds long_time{200};
  static constexpr std::chrono::milliseconds short_time{10};

  void add(Line line, std::optional<double> before_us) {
    for (std::optional<Row>& row : line.cells) {
      if (!row) continue;
      row->cache_line_before_us = before_us;
      row->cache_line_after_us = round_trip_us_;
      is_right_ = is_right_ && row->is_right();
    }
    report_.line(std::move(line));
  }

  PingPong ping_pong_;
  std::optional<double> round_trip_us_;
  Report report_;
  bool is_right_ = true;
};

/// Whether all results are right, on every rank.
bool measure_strategy_layer(const Options& options, const lockstep::Communicator& job) {
  const std::vector<StrategyCost> costs = measure_strategy(job, options.iterations);
  if (job.rank() == 0) print_strategy_costs(costs, job);
  const int wrong = std::ranges::all_of(costs, &StrategyCost::is_right) ? 0 : 1;
  int wrong_anywhere = 0;
  MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return wrong_anywhere == 0;
}

/// Whether all results are right; on rank 0 alone, so that the others do not disturb it.
bool measure_readers(const Options& options, int rank) {
  int wrong = 0;
  if (rank == 0) {
    const std::vector<InputRate> rates = measure_input(options.iterations);
    print_input_rates(rates);
    wrong = std::ranges::all_of(rates, &InputRate::is_right) ? 0 : 1;
  }
  MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return wrong == 0;
}

/// Whether all results are right.
bool measure(const Options& options, const Agenda& agenda, const Baseline& baseline, const Job& job,
             const lockstep::Environment& environment, const OwnComm& node) {
  const Machine machine = describe_machine(environment, node);
  Run run(options, machine, baseline, job, node);
  Measurement measurement(options, job, agenda);
  for (const Case& what : agenda.cases) run.add(line_of(measurement, what, options, job));
  for (const ListCase& what : agenda.lists) run.add(lines_of(measurement, what));
  return run.finish();
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  perf::Options options;
  std::string refusal;
  try {
    options = perf::parse_options(argc, argv);  // says how MPI is initialised
  } catch (const perf::OptionError& error) {
    refusal = error.what();
  }
  const perf::MpiAtLevel mpi(argc, argv, options.thread_level);
  const lockstep::Environment environment(argc, argv);
  const bool is_read = perf::all_accept([&] {
    if (!refusal.empty()) throw perf::OptionError(refusal);
  });
  if (!is_read) return perf::bad_option;
  if (!options.help.empty()) {
    if (environment.rank() == 0) std::fputs(options.help.c_str(), stdout);
    return perf::done;
  }
  if (options.show_selection) {
    const auto job = lockstep::world_communicator({.local_replicas = options.replicas_per_rank});
    const bool is_shown = perf::all_accept([&] {
      if (environment.rank() == 0) perf::show_selection(job, options.simulate, options.sizes_bytes());
    });
    return is_shown ? perf::done : perf::bad_option;
  }
  if (options.simulate) {
    const bool is_simulated = perf::all_accept([&] {
      if (environment.rank() == 0) perf::simulate(*options.simulate, options.sizes_bytes());
    });
    return is_simulated ? perf::done : perf::bad_option;
  }
  if (options.strategy) {
    return perf::measure_strategy_layer(options, lockstep::world_communicator()) ? perf::done : perf::wrong_result;
  }
  if (options.input) return perf::measure_readers(options, environment.rank()) ? perf::done : perf::wrong_result;
  const perf::OwnComm node(perf::node_of_this_rank());
  const perf::Job job{.rank = environment.rank(),
                      .ranks = environment.size(),
                      .replicas_per_rank = options.replicas_per_rank,
                      .root = options.root};
  const perf::Agenda agenda = perf::agenda_of(options, job);
  perf::Baseline baseline;
  const bool is_possible = perf::all_accept([&] {
    perf::check_job(options, job);
    perf::check_files(options, job.rank);
    perf::check_memory(options, agenda, job, node.size());
    baseline = perf::read_baseline(options, agenda, job);
  });
  if (!is_possible) return perf::bad_option;
  return perf::measure(options, agenda, baseline, job, environment, node) ? perf::done : perf::wrong_result;
}
