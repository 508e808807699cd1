// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/settings.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "schedule/radices.hpp"

#include <lockstep/cluster/environment_variables.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program to declare

namespace lockstep::detail {
namespace {

// LOCKSTEP_NCCL is read by bindings/nccl, when NCCL is first used; LOCKSTEP_MPI by the drop-in, in MPI_Init
constexpr std::array<std::string_view, 16> known_names{
    "LOCKSTEP_TIMEOUT",       "LOCKSTEP_ORDER", "LOCKSTEP_RADICES",  "LOCKSTEP_ALLOW_SINGLETON",
    "LOCKSTEP_SHARED_MEMORY", "LOCKSTEP_NCCL",  "LOCKSTEP_RECORDER", "LOCKSTEP_METRICS",
    "LOCKSTEP_TRACE",         "LOCKSTEP_MPI",   "LOCKSTEP_HASH_LOG", "LOCKSTEP_TRANSPORT",
    "LOCKSTEP_INTERFACE",     "LOCKSTEP_PORTS", "LOCKSTEP_ADDRESS",  "LOCKSTEP_ENCRYPTION"};

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
  std::vector<std::optional<std::chrono::milliseconds>> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    values.push_back(seconds(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  // std::is_sorted: an absent value is less than every number
  if (values.size() > 3 || !values.front() || !std::is_sorted(values.begin(), values.end())) {
    throw_error(Code::invalid_argument,
                "LOCKSTEP_TIMEOUT=\"{}\": expected seconds as FAIL, WARN,FAIL or WARN,FAIL,TOTAL with 0 < WARN <= FAIL "
                "<= TOTAL, such as 30,300",
                text);
  }
  settings.fail_after = values.size() == 1 ? *values[0] : *values[1];
  settings.warn_after = values.size() == 1 ? std::min(settings.warn_after, *values[0] / 2) : *values[0];
  if (values.size() == 3) settings.fail_after_total = *values[2];
}

void read_radices(std::string_view text, Settings& settings) {
  const RadixPattern checked(text, "LOCKSTEP_RADICES=");
  settings.radices = text;
}

void read_recorder(std::string_view text, Settings& settings) {
  const std::size_t comma = std::min(text.find(','), text.size());
  std::size_t entries = 0;
  const std::string_view number = text.substr(0, comma);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), entries);
  const bool is_number = error == std::errc{} && end == number.data() + number.size();
  const bool has_directory = comma < text.size();
  const bool is_off = entries == 0 && !has_directory;
  if (!is_number || (!is_off && (entries < 16 || entries > 65536)) || comma + 1 == text.size()) {
    throw_error(Code::invalid_argument,
                "LOCKSTEP_RECORDER=\"{}\": expected a number of operations from 16 to 65536, or that number and a "
                "directory, such as 512,/scratch/records, or 0 for no recorder",
                text);
  }
  settings.recorder_entries = entries;
  if (has_directory) settings.recorder_directory = text.substr(comma + 1);
}

void read_ports(std::string_view text, Settings& settings) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto read = [](std::string_view number, std::uint16_t& port) {
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), port);
    return error == std::errc{} && end == number.data() + number.size() && port > 0;
  };
  const bool is_right = dash < text.size() && read(text.substr(0, dash), settings.first_port) &&
                        read(text.substr(dash + 1), settings.last_port);
  if (!is_right || settings.last_port < settings.first_port)
    throw_error(Code::invalid_argument, "LOCKSTEP_PORTS=\"{}\": expected a range of ports such as 20000-20100", text);
}

/// The value of a variable that names a file or a directory; empty if the variable is not set.
std::string path_in(const char* name, std::string_view what) {
  const char* const value = std::getenv(name);
  if (value != nullptr && *value == '\0') throw_error(Code::invalid_argument, "{}=\"\": expected {}", name, what);
  return value != nullptr ? value : "";
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
  if (const auto text = variable("LOCKSTEP_TRANSPORT")) {
    if (*text != "mpi" && *text != "tcp" && *text != "auto")
      throw_error(Code::invalid_argument, "LOCKSTEP_TRANSPORT=\"{}\": expected mpi, tcp or auto", *text);
    settings.transport = *text == "mpi"   ? TransportSetting::mpi
                         : *text == "tcp" ? TransportSetting::tcp
                                          : TransportSetting::automatic;
  }
  if (const auto text = variable("LOCKSTEP_ENCRYPTION")) {
    settings.encrypts = read_switch("LOCKSTEP_ENCRYPTION", *text);
    if (settings.encrypts && settings.transport != TransportSetting::tcp) {
      throw_error(Code::invalid_argument,
                  "LOCKSTEP_ENCRYPTION=\"1\": needs LOCKSTEP_TRANSPORT=tcp, since messages of MPI are not encrypted");
    }
  }
  if (const auto text = variable("LOCKSTEP_INTERFACE")) settings.tcp_interface = *text;
  if (const auto text = variable("LOCKSTEP_ADDRESS")) settings.tcp_address = *text;
  if (const auto text = variable("LOCKSTEP_PORTS")) read_ports(*text, settings);
  if (const auto text = variable("LOCKSTEP_RECORDER")) read_recorder(*text, settings);
  settings.metrics_file = path_in("LOCKSTEP_METRICS", "the name of a file, such as metrics.jsonl or metrics.prom");
  settings.trace_directory = path_in("LOCKSTEP_TRACE", "the name of a directory, such as trace");
  settings.hash_log_directory = path_in("LOCKSTEP_HASH_LOG", "the name of a directory, such as hashes");
  return settings;
}

void report_unknown_variables() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("LOCKSTEP_")) continue;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_known = std::find(known_names.begin(), known_names.end(), name) != known_names.end();
    const bool is_program = std::any_of(program_variable_prefixes.begin(), program_variable_prefixes.end(),
                                        [name](std::string_view prefix) { return name.starts_with(prefix); });
    if (!is_known && !is_program)
      log_warning("the environment variable {} is set, but lockstep has no such variable", name);
  }
}

}  // namespace lockstep::detail

std::vector<std::string_view> lockstep::environment_variables() {
  return {detail::known_names.begin(), detail::known_names.end()};
}
