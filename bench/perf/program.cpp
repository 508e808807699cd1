// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/program.hpp"

#include "apps/options/program_options.hpp"
#include "apps/options/version.hpp"
#include "bench/harness/option_values.hpp"
#include "bench/input/input_rate.hpp"
#include "bench/perf/baseline.hpp"
#include "bench/perf/job_checks.hpp"
#include "bench/perf/machine.hpp"
#include "bench/perf/measurement.hpp"
#include "bench/perf/node_report.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/peer.hpp"
#include "bench/perf/ping_pong.hpp"
#include "bench/perf/report.hpp"
#include "bench/perf/run_plan.hpp"
#include "bench/simulate/selection.hpp"
#include "bench/simulate/simulation.hpp"
#include "bench/strategy/strategy_cost.hpp"

#include <lockstep/base/exit_code.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/interop/mpi.hpp>

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace perf {
namespace {

namespace exit_code = lockstep::exit_code;

/// Runs `step` on every rank and returns whether no rank refused an option. If some did, the lowest of them prints the
/// reason. Collective over `world`.
[[nodiscard]] bool all_accept(const lockstep::Communicator& world, const ::options::Sources& sources,
                              const std::function<void()>& step) {
  std::string text;
  try {
    step();
  } catch (const OptionError& error) {
    text = options::with_source(sources, error.what());
  }
  const int refusing = text.empty() ? world.size() : world.rank();
  const int first = world.all_reduce(refusing, lockstep::ReduceOp::min);
  if (first == world.rank()) fmt::print(stderr, "lockstep-perf: {}\n", options::printable(text));
  return first == world.size();
}

Baseline read_baseline(const Options& options, const RunPlan& plan, const Job& job) {
  if (job.rank != 0 || options.baseline.empty()) return {};
  return {options.baseline, job.ranks, identities_of(plan, options, job)};
}

/// The same call at each requested placement.
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

/// Reports the lines of the run plan, and measures the round trip of a cache line before and after each.
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
  /// Adds lines whose implementations were interleaved.
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

/// Whether all results of all ranks are right.
bool measure_strategy_layer(const Options& options, const lockstep::Communicator& job) {
  const std::vector<StrategyCost> costs = measure_strategy(job, options.iterations);
  if (job.rank() == 0) print_strategy_costs(costs, job);
  const int wrong = std::ranges::all_of(costs, &StrategyCost::is_right) ? 0 : 1;
  int wrong_anywhere = 0;
  MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return wrong_anywhere == 0;
}

/// Whether all results are right. Only rank 0 measures, so that the others do not disturb it.
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
bool measure(const Options& options, const RunPlan& plan, const Baseline& baseline, const Job& job,
             const lockstep::Environment& environment, const OwnComm& node) {
  const Machine machine = describe_machine(environment, job, node);
  Run run(options, machine, baseline, job, node);
  Measurement measurement(options, job, plan, machine.gpus.copy_gbs);
  for (const Case& what : plan.cases) run.add(line_of(measurement, what, options, job));
  for (const ListCase& what : plan.lists) run.add(lines_of(measurement, what));
  return run.finish();
}

int measure_collectives(Options options, const lockstep::Environment& environment,
                        const lockstep::Communicator& world) {
  const OwnComm node(node_of_this_rank());
  Job job{.rank = environment.rank(),
          .ranks = environment.size(),
          .replicas_per_rank = options.replicas_per_rank,
          .root = options.root};
  bool is_possible = all_accept(world, options.sources, [&] {
    lockstep::CommunicatorOptions asked;
    asked.local_replicas = options.replicas_per_rank;
    asked.order = options.order;
    const auto all = lockstep::world_communicator(asked);
    job.devices = devices_of_replicas(options, all);
    options.order = all.order(job.devices.front().kind);
  });
  if (!is_possible) return exit_code::usage;
  const RunPlan plan = run_plan_of(options, job);
  Baseline baseline;
  is_possible = all_accept(world, options.sources, [&] {
    check_job(options, job);
    check_files(options, job.rank);
    check_memory(options, plan, job, node.size());
    baseline = read_baseline(options, plan, job);
  });
  if (!is_possible) return exit_code::usage;
  if (options.compare == Peer::nccl && !all_accept(world, options.sources, [&] { check_own_gpus(job, node); }))
    return exit_code::usage;
  if (options.node_report) report_node(node, world, options.sizes_bytes());
  return measure(options, plan, baseline, job, environment, node) ? exit_code::success : exit_code::failure;
}

}  // namespace

int run_lockstep_perf(int argc, char** argv) {
  Options options;
  std::string refusal;
  try {
    options = parse_options(argc, argv);  // determines how MPI is initialised
  } catch (const OptionError& error) {
    refusal = error.what();
  }
  const MpiAtLevel mpi(argc, argv, options.thread_level);
  const lockstep::Environment environment(argc, argv);
  const lockstep::Communicator world = lockstep::world_communicator();
  const bool is_read = all_accept(world, options.sources, [&] {
    if (!refusal.empty()) throw OptionError(refusal);
  });
  if (!is_read) return exit_code::usage;
  if (const std::string mismatch = options::find_mismatch(world, options.given); !mismatch.empty()) {
    if (environment.rank() == 0) fmt::print(stderr, "lockstep-perf: {}\n", mismatch);
    return exit_code::usage;
  }
  if (!options.help.empty() || options.version) {
    const std::string text = options.help.empty() ? options::version_text("lockstep-perf") : options.help;
    if (environment.rank() == 0) std::fputs(text.c_str(), stdout);
    return exit_code::success;
  }
  if (options.show_selection) {
    const auto job = lockstep::world_communicator({.local_replicas = options.replicas_per_rank});
    const bool is_shown = all_accept(world, options.sources, [&] {
      if (environment.rank() == 0) show_selection(job, options.simulate, options.sizes_bytes());
    });
    return is_shown ? exit_code::success : exit_code::usage;
  }
  if (options.simulate) {
    const bool is_simulated = all_accept(world, options.sources, [&] {
      if (environment.rank() == 0) simulate(*options.simulate, options.sizes_bytes());
    });
    return is_simulated ? exit_code::success : exit_code::usage;
  }
  if (options.strategy) {
    return measure_strategy_layer(options, world) ? exit_code::success : exit_code::failure;
  }
  if (options.input) return measure_readers(options, environment.rank()) ? exit_code::success : exit_code::failure;
  return measure_collectives(options, environment, world);
}

}  // namespace perf
