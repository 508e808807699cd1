// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/report.hpp"

#include "apps/options/counted.hpp"
#include "base/output_file.hpp"
#include "bench/perf/memory.hpp"
#include "bench/perf/plot.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace perf {
namespace {

using ::options::counted;

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print(text, std::forward<Args>(args)...);
  std::fputc('\n', stdout);
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::string times(const std::optional<double>& us) { return us ? fmt::format("{:.2f} us", *us) : "not measured"; }

nlohmann::ordered_json gpus_json(const Gpus& gpus) {
  if (gpus.status.empty()) return nullptr;
  return {{"status", gpus.status}, {"devices", gpus.devices}, {"copy_gbs", or_null(gpus.copy_gbs)}};
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
      {"mpi_yields", machine.mpi_yields},
      {"kernel_target", machine.kernel_target},
      {"page_bytes", machine.page_bytes},
      {"transparent_hugepages", machine.transparent_hugepages},
      {"buffers", memory_kind(options.memory).text()},
      {"gpus", gpus_json(machine.gpus)},
      {"variables", machine.variables},
      {"iterations", options.iterations},
      {"warmup_iterations", options.warmup_iterations},
      {"check", options.check},
  };
}

bool has_form(const Options& options, Form form) {
  return std::ranges::any_of(options.collectives, [&](Collective collective) {
    const std::vector<Form> forms = options.forms_of(collective);
    return std::ranges::find(forms, form) != forms.end();
  });
}

std::string call_text(const Options& options) {
  std::string text;
  if (!options.prepared) text += "; all_reduce is not prepared";
  return text;
}

void write(const char* option, const std::string& name, const std::string& text) {
  try {
    lockstep::detail::FileReplacement file(name);
    file.write(text);
    file.finish(lockstep::detail::Durability::none);
  } catch (const lockstep::detail::FileError& error) {
    throw std::runtime_error(fmt::format("{} \"{}\": the file cannot be written: {}", option, name, error.what()));
  }
}

std::string in_quotes(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

std::string field(const nlohmann::ordered_json& value) {
  if (value.is_null()) return {};
  return in_quotes(value.is_string() ? value.get<std::string>() : value.dump());
}

/// CSV text: a header line, then one line per object of `rows`. All objects have the same keys; null becomes an empty
/// field.
std::string csv_of(const nlohmann::ordered_json& rows) {
  std::vector<std::string> names;
  if (!rows.empty()) {
    for (const auto& [name, value] : rows.front().items()) names.push_back(in_quotes(name));
  }
  std::string text = fmt::format("{}\n", fmt::join(names, ","));
  for (const auto& row : rows) {
    std::vector<std::string> fields;
    for (const auto& value : row) fields.push_back(field(value));
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

}  // namespace

Report::Report(const Options& options, const Machine& machine, const Baseline& baseline,
               std::optional<double> round_trip_us, bool speaks)
    : options_(options),
      machine_(machine),
      baseline_(baseline),
      table_(options, machine.gpus.copy_gbs.has_value()),
      round_trip_before_us_(round_trip_us),
      speaks_(speaks) {
  if (speaks_) header();
}

void Report::header() const {
  const Machine& m = machine_;
  say("# lockstep-perf {}, {}", m.version, m.date);
  say("# cpu         {}; {} for {} of a node ({} to {} each); load {:.2f}", m.cpu, counted(m.cores_of_node, "core"),
      counted(m.ranks_of_node, "rank"), m.least_cores_of_rank, m.most_cores_of_rank, m.load);
  say("# kernels     {}", m.kernel_target);
  say("# job         {} on {}, {} each", counted(m.ranks, "rank"), counted(m.nodes, "node"),
      counted(options_.replicas_per_rank, "replica"));
  say("# mpi         {}; thread level {}", m.mpi, m.thread_level);
  say("# pages       {} bytes, transparent huge pages: {}; buffers from {}", m.page_bytes, m.transparent_hugepages,
      memory_kind(options_.memory).text());
  if (options_.compare == Peer::mpi && options_.mpi_memory != options_.memory) {
    say("#             MPI's buffers from {}", memory_kind(options_.mpi_memory).text());
  }
  if (!m.gpus.status.empty()) {
    say("# gpus        {}", m.gpus.status);
    say("#             replicas of rank 0 on {}{}", fmt::join(m.gpus.devices, ", "),
        m.gpus.copy_gbs ? fmt::format("; a copy there reads and writes {:.0f} GB/s", *m.gpus.copy_gbs) : "");
  }
  say("# cache line  {} round trip between two ranks", times(round_trip_before_us_));
  say("# method      {} after {} for warm-up; before each: input written, barrier; after each: output {}",
      counted(options_.iterations, "call"), options_.warmup_iterations,
      options_.check ? "checked" : "read, not checked");
  say("#             time: median over the calls, of the slowest rank each; order: {}{}",
      lockstep::to_string(*options_.order), call_text(options_));
  if (has_form(options_, Form::async)) say("#             async: an asynchronous call, until its wait() returns");
  if (has_form(options_, Form::in_flight))
    say("#             in_flight: {} asynchronous calls, until the last wait() returns", calls_of(Form::in_flight));
  if (has_form(options_, Form::loop) || has_form(options_, Form::async_loop))
    say("#             loop, async_loop: {} calls, one after the other, without a barrier", calls_of(Form::loop));
  if (!options_.baseline.empty()) say("# baseline    {}", baseline_.text());
  if (m.load > 1.5 * m.cores_of_node) {
    say("# NOTE        other programs use the cores: a call that waits may lose its core for milliseconds");
  }
  if (m.ranks_of_node > m.cores_of_node) {
    say("# NOTE        {} ranks share {}: most of the time is waiting for a core", m.ranks_of_node,
        counted(m.cores_of_node, "core"));
  }
  if (options_.compare == Peer::mpi && m.mpi_yields && m.ranks_of_node <= m.cores_of_node) {
    say("# NOTE        MPI yields while it waits, although every rank has a core: its small calls are slower than "
        "necessary");
    say("#             (OMPI_MCA_mpi_yield_when_idle=0; mpirun sets it to 1 if there are more ranks than slots)");
  }
  std::fflush(stdout);
}

void Report::line(Line line) {
  if (!speaks_) return;
  for (std::optional<Row>& row : line.cells) {
    if (!row) continue;
    row->baseline_us = baseline_.time_us(row->identity);
    rows_.push_back(*row);
  }
  if (options_.osu) {
    osu_line(line);
  } else {
    std::string group(line.identity.collective);
    if (!line.identity.list.empty()) group += " of " + line.identity.list;
    if (line.identity.form != to_string(Form::blocking)) group += fmt::format(", {}", line.identity.form);
    if (std::exchange(group_, group) != group) say("#\n# {}\n{}", group, table_.heading());
    say("{}", table_.line(line));
  }
  std::fflush(stdout);
}

/// Parsers of OSU's output skip lines that begin with #, and take size and time from the others.
void Report::osu_line(const Line& line) {
  const auto row =
      std::find_if(line.cells.begin(), line.cells.end(), [](const auto& cell) { return cell.has_value(); });
  if (row == line.cells.end()) return;
  const Identity& identity = (*row)->identity;
  const std::string group = fmt::format("{}, {}", identity.name(), identity.in_place ? "in place" : "out of place");
  if (std::exchange(group_, group) != group) {
    say("\n# {}\n{:<10}{:>18}", group, "# Size", "Latency(us)");
  }
  say("{:<10}{:>18.2f}", (*row)->bytes, (*row)->time_us());
}

void Report::finish(std::optional<double> round_trip_us) {
  if (!speaks_) return;
  footer(round_trip_us);
  std::fflush(stdout);
  write_files(round_trip_us);
}

void Report::write_files(std::optional<double> round_trip_us) const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : rows_) rows.push_back(to_json(row, options_));
  if (!options_.csv.empty()) write("--csv", options_.csv, csv_of(rows));
  if (options_.json.empty() && options_.plot.empty()) return;
  nlohmann::ordered_json environment = environment_json(options_, machine_);
  environment["cache_line_round_trip_us"] = {{"before", or_null(round_trip_before_us_)},
                                             {"after", or_null(round_trip_us)}};
  if (!options_.baseline.empty()) environment["baseline"] = baseline_.text();
  const std::string json = nlohmann::ordered_json{{"environment", environment}, {"rows", rows}}.dump(2) + '\n';
  if (!options_.json.empty()) write("--json", options_.json, json);
  if (options_.plot.empty() || rows_.empty()) return;
  if (options_.plot == "-") say("#\n# Plot");
  draw(rows_, json, options_.plot);
}

void Report::footer(std::optional<double> round_trip_us) const {
  std::int64_t wrong = 0;
  std::int64_t peer_wrong = 0;
  double bus_sum_gbs = 0;
  bool has_other_peer_calls = false;
  for (const Row& row : rows_) {
    wrong += row.ours.wrong.value_or(0);
    if (row.peer) peer_wrong += row.peer->wrong.value_or(0);
    has_other_peer_calls |= row.peer && !row.is_same_peer_call;
    bus_sum_gbs += row.bus_gbs();
  }
  if (has_other_peer_calls) {
    if (options_.compare == Peer::nccl) {
      say("# * NCCL's time is that of the sum");
    } else {
      say("# * MPI lacks this call; its time is that of as many elements of f32 for f16 and bf16, and of the sum for "
          "mean");
    }
  }
  if (!options_.check) {
    say("# Wrong values         : not checked");
  } else {
    say("# Wrong values         : {} {}", wrong, wrong == 0 ? "OK" : "FAILED");
    if (peer_wrong != 0) {
      say("# {}'s wrong values   : {} FAILED; the ratios mean nothing", peer_name(options_.compare), peer_wrong);
    }
  }
  say("# Cache line afterwards: {}", times(round_trip_us));
  warnings(round_trip_us);
  say("# Avg bus bandwidth    : {:.4f} GB/s", rows_.empty() ? 0 : bus_sum_gbs / static_cast<double>(rows_.size()));
  comparison();
}

/// The number of rows in which the peer is not faster, and the row that is farthest from that.
void Report::comparison() const {
  std::int64_t compared = 0;
  std::int64_t not_slower = 0;
  const Row* slowest = nullptr;
  for (const Row& row : rows_) {
    if (!row.peer) continue;
    ++compared;
    if (*row.ratio() <= 1) ++not_slower;
    if (slowest == nullptr || *row.ratio() > *slowest->ratio()) slowest = &row;
  }
  if (slowest == nullptr) return;
  const std::string size = slowest->bytes == 0 ? "" : fmt::format(", {} B", slowest->bytes);
  say("# {} of {} not slower than {}; slowest: {}{} at {:.2f}", not_slower, counted(compared, "row"),
      slowest->peer_name, slowest->identity.full_name(), size, *slowest->ratio());
}

void Report::warnings(std::optional<double> round_trip_us) const {
  const auto changed =
      std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.cache_line_has_changed(); });
  if (changed != 0) {
    say("# WARNING: the distance of the two cores changed while {} {} measured (!); measure {} again",
        counted(changed, "row"), changed == 1 ? "was" : "were", changed == 1 ? "it" : "those");
  } else if (cache_line_differs(round_trip_before_us_, round_trip_us)) {
    say("# WARNING: the distance of the two cores changed between rows (the cache line took {}); compare rows with "
        "care",
        times(round_trip_before_us_));
  }
}

}  // namespace perf
