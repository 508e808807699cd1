// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/baseline.hpp"

#include "bench/harness/option_values.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace perf {
namespace {

constexpr std::string_view baseline_rule = "give a file that --json wrote";

nlohmann::ordered_json json_of(const std::string& file_name) {
  std::ifstream file(file_name);
  if (!file) refuse("--baseline \"{}\": the file cannot be read; {}", file_name, baseline_rule);
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(file, nullptr, false);
  if (json.is_discarded()) refuse("--baseline \"{}\": invalid JSON; {}", file_name, baseline_rule);
  return json;
}

}  // namespace

Baseline::Baseline(const std::string& file_name, int ranks, std::span<const Identity> rows) {
  const nlohmann::ordered_json json = json_of(file_name);
  int their_ranks = 0;
  try {
    const auto& environment = json.at("environment");
    their_ranks = environment.at("ranks").get<int>();
    text_ =
        fmt::format("{}: lockstep {} of {}, thread level {}", file_name, environment.at("version").get<std::string>(),
                    environment.at("date").get<std::string>(), environment.at("thread_level").get<std::string>());
    for (const auto& row : json.at("rows")) times_us_.emplace(identity_text(row), row.at("time_us").get<double>());
  } catch (const nlohmann::json::exception& error) {
    const std::string_view what(error.what());  // begins with the name of the exception, in brackets
    refuse("--baseline \"{}\": not a result of lockstep-perf ({}); {}", file_name, what.substr(what.find(']') + 2),
           baseline_rule);
  }
  if (their_ranks != ranks) {
    refuse("--baseline \"{}\": the file has results of {} rank{}, but this job has {}; give a file of as many ranks",
           file_name, their_ranks, their_ranks == 1 ? "" : "s", ranks);
  }
  if (std::none_of(rows.begin(), rows.end(), [&](const Identity& row) { return time_us(row).has_value(); })) {
    refuse("--baseline \"{}\": none of its rows ({}) matches a call of this run; give a file with the same calls",
           file_name, times_us_.size());
  }
}

std::optional<double> Baseline::time_us(const Identity& row) const {
  const auto found = times_us_.find(row.text());
  return found == times_us_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace perf
