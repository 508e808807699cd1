// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace perf {
namespace {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print(text, std::forward<Args>(args)...);
  std::fputc('\n', stdout);
}

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::string times(const std::optional<double>& us) { return us ? fmt::format("{:.2f} us", *us) : "not measured"; }

/// The part of a line that belongs to one placement; what MPI did only where there is a comparison.
std::string columns(std::string_view time, std::optional<std::string_view> mpi, std::string_view ratio,
                    std::string_view algbw, std::string_view busbw, std::string_view wrong) {
  std::string text = fmt::format("  {:>10}", time);
  if (mpi) text += fmt::format(" {:>10} {:>7}", *mpi, ratio);
  return text + fmt::format(" {:>7} {:>7} {:>6}", algbw, busbw, wrong);
}

std::optional<std::string_view> if_comparing(const Options& options, std::string_view text) {
  return options.compare == Peer::none ? std::nullopt : std::optional(text);
}

std::string columns_of(const Measured& measured, const Options& options, int ranks) {
  if (!measured.result) return columns("-", if_comparing(options, "-"), "- ", "-", "-", "-");
  const Case& what = measured.what;
  const Result& result = *measured.result;
  const char mark = peer_call(what.dtype, what.op).is_same ? ' ' : '*';
  const std::string mpi = fmt::format("{:.2f}", result.mpi_time_us.value_or(0));
  return columns(fmt::format("{:.2f}", result.time_us), if_comparing(options, mpi),
                 fmt::format("{:.2f}{}", result.time_us / result.mpi_time_us.value_or(1), mark),
                 fmt::format("{:.3f}", algorithm_gbs(what, result.time_us)),
                 fmt::format("{:.3f}", bus_gbs(what, result.time_us, ranks)),
                 result.wrong ? std::to_string(*result.wrong) : "N/A");
}

nlohmann::ordered_json environment_json(const Options& options, const Machine& machine) {
  return {
      {"program", "lockstep-perf"},
      {"version", machine.version},
      {"date", machine.date},
      {"cpu", machine.cpu},
      {"ranks", machine.ranks},
      {"nodes", machine.nodes},
      {"ranks_of_node", machine.ranks_of_node},
      {"cores_of_node", machine.cores_of_node},
      {"cores_of_rank", {machine.least_cores_of_rank, machine.most_cores_of_rank}},
      {"load", machine.load},
      {"mpi", machine.mpi},
      {"thread_level", machine.thread_level},
      {"page_bytes", machine.page_bytes},
      {"transparent_hugepages", machine.transparent_hugepages},
      {"variables", machine.variables},
      {"iterations", options.iterations},
      {"warmup_iterations", options.warmup_iterations},
      {"check", options.check},
  };
}

}  // namespace

double algorithm_gbs(const Case& what, double time_us) noexcept {
  return time_us > 0 ? static_cast<double>(what.bytes()) / time_us * 1e-3 : 0;
}

double bus_gbs(const Case& what, double time_us, int ranks) noexcept {
  return algorithm_gbs(what, time_us) * 2 * (ranks - 1) / ranks;
}

Report::Report(const Options& options, const Machine& machine, std::optional<double> round_trip_us, bool speaks)
    : options_(options),
      machine_(machine),
      round_trip_before_us_(round_trip_us),
      speaks_(speaks),
      rows_(std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::array())) {
  if (speaks_) header();
}

Report::~Report() = default;

void Report::header() const {
  const Machine& m = machine_;
  say("# lockstep-perf {}, {}", m.version, m.date);
  say("# cpu         {}; {} cores for {} ranks of a node ({} to {} each); load {:.2f}", m.cpu, m.cores_of_node,
      m.ranks_of_node, m.least_cores_of_rank, m.most_cores_of_rank, m.load);
  say("# job         {} ranks on {} {}", m.ranks, m.nodes, m.nodes == 1 ? "node" : "nodes");
  say("# mpi         {}; thread level {}", m.mpi, m.thread_level);
  say("# pages       {} bytes, transparent huge pages: {}; buffers from malloc", m.page_bytes, m.transparent_hugepages);
  say("# cache line  {} there and back between two ranks", times(round_trip_before_us_));
  say("# method      {} calls after {} for warm-up; before each: input written, barrier; after each: output {}",
      options_.iterations, options_.warmup_iterations, options_.check ? "checked" : "read, not checked");
  say("#             time: median over the calls, of the slowest rank each; order: {}",
      lockstep::to_string(options_.order));
  if (m.load > 1.5 * m.cores_of_node) {
    say("# NOTE        other programs keep the cores busy: a call that waits may lose its core for milliseconds");
  }
  if (m.ranks_of_node > m.cores_of_node) {
    say("# NOTE        {} ranks share {} cores: times are mostly those of waiting for a core", m.ranks_of_node,
        m.cores_of_node);
  }
  std::string places;
  std::string names;
  std::string units;
  for (const Placement placement : options_.placements) {
    names += columns("time", if_comparing(options_, "MPI"), "ratio ", "algbw", "busbw", "#wrong");
    units += columns("(us)", if_comparing(options_, "(us)"), "", "(GB/s)", "(GB/s)", "");
    const std::string_view place = placement == Placement::in_place ? "in-place" : "out-of-place";
    places += fmt::format("{:>{}}", place, names.size() - places.size());
  }
  say("#\n#{:>39}{}", "", places);
  say("#{:>10} {:>10} {:>5} {:>5} {:>5}{}", "size", "count", "type", "redop", "root", names);
  say("#{:>10} {:>10} {:>5} {:>5} {:>5}{}", "(B)", "(elements)", "", "", "", units);
  std::fflush(stdout);
}

void Report::line(std::span<const Measured> placements) {
  if (!speaks_) return;
  const Case& what = placements.front().what;
  std::string text = fmt::format(" {:>10} {:>10} {:>5} {:>5} {:>5}", what.bytes(), what.count,
                                 lockstep::to_string(what.dtype), lockstep::to_string(what.op), -1);
  for (const Measured& measured : placements) {
    text += columns_of(measured, options_, machine_.ranks);
    row(measured);
  }
  say("{}", text);
  std::fflush(stdout);
}

void Report::row(const Measured& measured) {
  if (!measured.result) return;
  const Case& what = measured.what;
  const Result& result = *measured.result;
  const PeerCall peer = peer_call(what.dtype, what.op);
  const bool compares = result.mpi_time_us.has_value();
  wrong_ += result.wrong.value_or(0);
  mpi_wrong_ += result.mpi_wrong.value_or(0);
  has_other_peer_calls_ |= compares && !peer.is_same;
  bus_sum_gbs_ += bus_gbs(what, result.time_us, machine_.ranks);
  rows_->push_back({
      {"collective", what.collective},
      {"bytes", what.bytes()},
      {"count", what.count},
      {"dtype", lockstep::to_string(what.dtype)},
      {"op", lockstep::to_string(what.op)},
      {"memory", "malloc"},
      {"order", lockstep::to_string(options_.order)},
      {"in_place", what.placement == Placement::in_place},
      {"time_us", result.time_us},
      {"mpi_time_us", or_null(result.mpi_time_us)},
      {"ratio", compares ? or_null(std::optional(result.time_us / *result.mpi_time_us)) : nullptr},
      {"mpi_call", compares ? or_null(std::optional(peer.name())) : nullptr},
      {"algbw_gbs", algorithm_gbs(what, result.time_us)},
      {"busbw_gbs", bus_gbs(what, result.time_us, machine_.ranks)},
      {"wrong", or_null(result.wrong)},
      {"mpi_wrong", or_null(result.mpi_wrong)},
  });
}

void Report::finish(std::optional<double> round_trip_us) {
  if (!speaks_) return;
  if (has_other_peer_calls_) {
    say("# * MPI lacks this call; its time is of as many elements in f32 for f16 and bf16, and of the sum alone for "
        "mean");
  }
  if (!options_.check) {
    say("# Wrong values         : not checked");
  } else {
    say("# Wrong values         : {} {}", wrong_, wrong_ == 0 ? "OK" : "FAILED");
    if (mpi_wrong_ != 0) say("# MPI's wrong values   : {} FAILED; the ratios mean nothing", mpi_wrong_);
  }
  say("# Cache line afterwards: {}", times(round_trip_us));
  if (round_trip_us && round_trip_before_us_ &&
      std::max(*round_trip_us, *round_trip_before_us_) > 2 * std::min(*round_trip_us, *round_trip_before_us_)) {
    say("# WARNING: the way between the two cores changed during the run (it was {}); measure again",
        times(round_trip_before_us_));
  }
  say("# Avg bus bandwidth    : {:.4f} GB/s", rows_->empty() ? 0 : bus_sum_gbs_ / static_cast<double>(rows_->size()));
  std::fflush(stdout);
  if (options_.json.empty()) return;
  nlohmann::ordered_json environment = environment_json(options_, machine_);
  environment["cache_line_round_trip_us"] = {{"before", or_null(round_trip_before_us_)},
                                             {"after", or_null(round_trip_us)}};
  const nlohmann::ordered_json json{{"environment", environment}, {"rows", *rows_}};
  std::ofstream file(options_.json);
  file << json.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error(fmt::format("--json \"{}\": the file cannot be written", options_.json));
}

}  // namespace perf
