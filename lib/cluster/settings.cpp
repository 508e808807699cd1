// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/settings.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "schedule/radices.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program to declare

namespace lockstep::detail {
namespace {

// LOCKSTEP_NCCL is read by bindings/nccl, when NCCL is first used
constexpr std::array<std::string_view, 6> known{"LOCKSTEP_TIMEOUT",       "LOCKSTEP_ORDER",
                                                "LOCKSTEP_RADICES",       "LOCKSTEP_ALLOW_SINGLETON",
                                                "LOCKSTEP_SHARED_MEMORY", "LOCKSTEP_NCCL"};
constexpr std::array<std::string_view, 2> programs{"LOCKSTEP_TRAIN_", "LOCKSTEP_PERF_"};

std::optional<std::string_view> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<std::chrono::milliseconds> seconds(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0.001) || !(value <= 1e9))
    return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

void read_timeout(std::string_view text, Settings& settings) {
  const std::size_t comma = text.find(',');
  const auto fail = seconds(comma == std::string_view::npos ? text : text.substr(comma + 1));
  const auto warn = comma == std::string_view::npos ? fail : seconds(text.substr(0, comma));
  if (!fail || !warn || *warn > *fail) {
    throw_error(Code::invalid_argument,
                "LOCKSTEP_TIMEOUT=\"{}\": expected seconds as FAIL or WARN,FAIL with 0 < WARN <= FAIL, such as 30,300",
                text);
  }
  settings.fail_after = *fail;
  settings.warn_after = comma == std::string_view::npos ? std::min(settings.warn_after, *fail / 2) : *warn;
}

void read_radices(std::string_view text, Settings& settings) {
  try {
    const RadixPattern checked(text);
    settings.radices = text;
  } catch (const Error& error) {
    throw_error(Code::invalid_argument, "LOCKSTEP_RADICES: {}", error.text());
  }
}

bool read_switch(const char* name, std::string_view text) {
  if (text == "1") return true;
  if (text == "0") return false;
  throw_error(Code::invalid_argument, "{}=\"{}\": expected 0 or 1", name, text);
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  if (const auto text = variable("LOCKSTEP_TIMEOUT")) read_timeout(*text, settings);
  if (const auto text = variable("LOCKSTEP_ORDER")) {
    if (*text != "canonical") {
      throw_error(Code::invalid_argument,
                  "LOCKSTEP_ORDER=\"{}\": expected \"canonical\"; the environment may make the order stricter, but not "
                  "relax it",
                  *text);
    }
    settings.force_canonical_order = true;
  }
  if (const auto text = variable("LOCKSTEP_RADICES")) read_radices(*text, settings);
  if (const auto text = variable("LOCKSTEP_ALLOW_SINGLETON")) {
    settings.allow_singleton = read_switch("LOCKSTEP_ALLOW_SINGLETON", *text);
  }
  if (const auto text = variable("LOCKSTEP_SHARED_MEMORY")) {
    settings.share_memory = read_switch("LOCKSTEP_SHARED_MEMORY", *text);
  }
  return settings;
}

void report_unknown_variables() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("LOCKSTEP_")) continue;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    const bool is_program =
        std::any_of(programs.begin(), programs.end(), [name](auto prefix) { return name.starts_with(prefix); });
    if (!is_known && !is_program)
      log_warning("the environment variable {} is set, but lockstep has no such variable", name);
  }
}

}  // namespace lockstep::detail
