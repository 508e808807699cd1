// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/table.hpp"

#include <fmt/format.h>

#include <utility>

namespace perf {
namespace {

std::string time_text(std::optional<double> us) { return us ? fmt::format("{:.2f}", *us) : "-"; }
std::string rate_text(double gbs) { return fmt::format("{:.3f}", gbs); }

std::string peer_ratio_text(const Row& row) {
  return row.peer ? fmt::format("{:.2f}{}", *row.ratio(), row.is_same_peer_call ? ' ' : '*') : "- ";
}

std::string wrong_text(const Row& row) { return row.ours.wrong ? std::to_string(*row.ours.wrong) : "N/A"; }

std::string_view or_none(std::string_view text) { return text.empty() ? "none" : text; }

}  // namespace

Table::Table(const Options& options, bool has_hbm) : options_(options) {
  const auto add = [&](std::string name, const char* unit, int width, std::string (*text)(const Row&)) {
    columns_.push_back({std::move(name), unit, width, text});
  };
  add("time", "(us)", 10, [](const Row& row) { return time_text(row.time_us()); });
  if (options.percentiles) {
    add("p10", "(us)", 10, [](const Row& row) { return time_text(row.ours.times_us.p10); });
    add("p90", "(us)", 10, [](const Row& row) { return time_text(row.ours.times_us.p90); });
    add("p99", "(us)", 10, [](const Row& row) { return time_text(row.ours.times_us.p99); });
  }
  if (options.compare != Peer::none) {
    add(peer_name(options.compare), "(us)", 10, [](const Row& row) { return time_text(row.peer->times_us.p50); });
    add("ratio ", "", 7, peer_ratio_text);
  }
  if (options.limit) {
    add("of limit", "", 8, [](const Row& row) { return row.of_limit() ? rate_text(*row.of_limit()) : "-"; });
  }
  if (has_hbm) {
    add("of HBM", "", 7, [](const Row& row) { return row.of_hbm() ? rate_text(*row.of_hbm()) : "-"; });
  }
  if (!options.baseline.empty()) {
    add("/ base", "", 7,
        [](const Row& row) { return row.baseline_us ? fmt::format("{:.2f}", *row.baseline_ratio()) : "-"; });
  }
  add("algbw", "(GB/s)", 7, [](const Row& row) { return rate_text(row.algorithm_gbs()); });
  add("busbw", "(GB/s)", 7, [](const Row& row) { return rate_text(row.bus_gbs()); });
  add("#wrong", "", 6, wrong_text);
}

std::string Table::heading() const {
  std::string places;
  std::string names;
  std::string units;
  for (const Placement placement : options_.placements) {
    names += ' ';
    units += ' ';
    for (const Column& column : columns_) {
      names += fmt::format(" {:>{}}", column.name, column.width);
      units += fmt::format(" {:>{}}", column.unit, column.width);
    }
    const std::string_view place = placement == Placement::in_place ? "in-place" : "out-of-place";
    places += fmt::format("{:>{}}", place, names.size() - places.size());
  }
  units.erase(units.find_last_not_of(' ') + 1);
  const bool is_list = !options_.list.empty();
  const std::string fixed_names =
      is_list ? fmt::format("#{:>10} {:>10} {:>5} {:>5} {:>10}", "tensors", "count", "type", "redop", "mode")
              : fmt::format("#{:>10} {:>10} {:>5} {:>5} {:>5}", "size", "count", "type", "redop", "root");
  const std::string fixed_units =
      fmt::format("#{:>10} {:>10} {:>{}}", is_list ? "" : "(B)", "(elements)", "", fixed_names.size() - 23);
  return fmt::format("#{:>{}}{}\n{}{}\n{}{}", "", fixed_names.size() - 1, places, fixed_names, names, fixed_units,
                     units);
}

std::string Table::fixed(const Line& line) const {
  const Identity& identity = line.identity;
  if (!options_.list.empty()) {
    return fmt::format(" {:>10} {:>10} {:>5} {:>5} {:>10}", line.tensors, identity.count, identity.dtype, identity.op,
                       identity.mode);
  }
  return fmt::format(" {:>10} {:>10} {:>5} {:>5} {:>5}", line.bytes, identity.count, or_none(identity.dtype),
                     or_none(identity.op), line.root);
}

std::string Table::line(const Line& line) const {
  std::string text = fixed(line);
  bool has_changed = false;
  for (const std::optional<Row>& row : line.cells) {
    text += ' ';
    for (const Column& column : columns_) {
      text += fmt::format(" {:>{}}", row ? column.text(*row) : "-", column.width);
    }
    has_changed = has_changed || (row && row->cache_line_has_changed());
  }
  return has_changed ? text + " !" : text;
}

}  // namespace perf
