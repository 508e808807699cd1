// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/baseline.hpp"

#include "base/json_reader.hpp"
#include "base/printable.hpp"
#include "bench/harness/option_values.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace perf {
namespace {

constexpr std::string_view baseline_rule = "give a file that --json wrote";
constexpr std::uint64_t most_integer = std::numeric_limits<std::int64_t>::max();
constexpr lockstep::detail::JsonLimits limits{.bytes = std::size_t{1} << 26, .values = std::size_t{1} << 22};

lockstep::detail::JsonDocument json_of(const std::string& file_name) {
  try {
    return lockstep::detail::read_json_file(file_name, limits);
  } catch (const std::system_error&) {
    refuse("--baseline \"{}\": the file cannot be read; {}", file_name, baseline_rule);
  } catch (const lockstep::detail::JsonError& error) {
    refuse("--baseline \"{}\": {}; {}", file_name, error.what(), baseline_rule);
  }
}

/// A value of `object`, or `fallback` if it has none.
std::int64_t integer_of(const nlohmann::json& object, const char* name, const nlohmann::json& fallback = nullptr) {
  const nlohmann::json value = fallback.is_null() ? object.at(name) : object.value(name, fallback);
  const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > most_integer;
  if (!value.is_number_integer() || is_too_large)
    throw std::out_of_range(fmt::format("\"{}\" is not a whole number of at most {}", name, most_integer));
  return value.get<std::int64_t>();
}

/// As many as lockstep-perf can have; another number makes the row that of no call.
int replicas_of(const nlohmann::json& row) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp<std::int64_t>(integer_of(row, "replicas_per_rank", 1), 0, most));
}

/// Empty if the value is missing or null.
std::string text_of(const nlohmann::json& object, const char* name) {
  const nlohmann::json value = object.value(name, nlohmann::json(nullptr));
  return value.is_null() ? std::string() : value.get<std::string>();
}

/// "blocking" in files of versions that had no field for it, unless the calls were asynchronous.
std::string form_of(const nlohmann::json& row) {
  std::string form = text_of(row, "form");
  if (form.empty()) form = to_string(row.value("async", false) ? Form::async : Form::blocking);
  return form;
}

/// The text of the identity of a row.
std::string identity_text(const nlohmann::json& row) {
  const std::string collective = row.at("collective").get<std::string>();
  const std::string dtype = text_of(row, "dtype");
  const std::string op = text_of(row, "op");
  const std::string form = form_of(row);
  const Identity identity{.collective = collective,
                          .list = text_of(row, "list"),
                          .mode = text_of(row, "mode"),
                          .form = form,
                          .count = integer_of(row, "count"),
                          .dtype = dtype,
                          .op = op,
                          .in_place = row.at("in_place").get<bool>(),
                          .replicas_per_rank = replicas_of(row)};
  return identity.text();
}

}  // namespace

Baseline::Baseline(const std::string& file_name, int ranks, std::span<const Identity> rows) {
  const lockstep::detail::JsonDocument document = json_of(file_name);
  const nlohmann::json& json = *document;
  std::int64_t their_ranks = 0;
  const auto refuse_content = [&](std::string_view why) {
    refuse("--baseline \"{}\": not a result of lockstep-perf ({}); {}", file_name, why, baseline_rule);
  };
  try {
    const auto& environment = json.at("environment");
    their_ranks = integer_of(environment, "ranks");
    text_ = lockstep::detail::printable(
        fmt::format("{}: lockstep {} of {}, thread level {}", file_name, environment.at("version").get<std::string>(),
                    environment.at("date").get<std::string>(), environment.at("thread_level").get<std::string>()));
    for (const auto& row : json.at("rows")) times_us_.emplace(identity_text(row), row.at("time_us").get<double>());
  } catch (const nlohmann::json::exception& error) {
    const std::string_view what(error.what());  // begins with the name of the exception, in brackets
    refuse_content(what.substr(what.find(']') + 2));
  } catch (const std::out_of_range& error) {
    refuse_content(error.what());
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
