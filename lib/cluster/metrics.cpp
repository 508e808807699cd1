// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/metrics.hpp"

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/json_writer.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "cluster/files.hpp"
#include "cluster/launcher.hpp"

#include <lockstep/cluster/report_value.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep {
namespace detail {
namespace {

struct Values {
  static constexpr std::size_t most = 256;
  Mutex mutex;
  ReportedValues by_name LOCKSTEP_GUARDED_BY(mutex);
  bool has_warned LOCKSTEP_GUARDED_BY(mutex) = false;
};

/// Never destroyed: threads may report values at any time.
Values& values() {
  static NeverDestroyed<Values> of_this_process;
  return *of_this_process;
}

ProcessFlag keeps_values;

void set_value(std::string_view name, double value) {
  Values& all = values();
  const MutexLock lock(all.mutex);
  if (const auto found = all.by_name.find(name); found != all.by_name.end()) {
    found->second = value;
  } else if (all.by_name.size() < Values::most) {
    all.by_name.emplace(name, value);
  } else if (!std::exchange(all.has_warned, true)) {
    log_warning("report_value: the value \"{}\" is ignored, because there are {} other names already", name,
                Values::most);
  }
}

/// The name of the job as a number, since launchers number their jobs; nullopt for other names.
std::optional<long> job_number(const std::string& job) {
  const auto number = number_of(job);
  return number && std::to_string(*number) == job ? number : std::nullopt;
}

double rounded_ms(double seconds) { return std::round(seconds * 1000) / 1000; }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char each : text) {
    if (each == '\\' || each == '"') result += '\\';
    if (each == '\n') {
      result += "\\n";
    } else {
      result += each;
    }
  }
  return result;
}

/// The families of a Prometheus file, one after the other.
class PrometheusText {
 public:
  explicit PrometheusText(const Metrics& metrics)
      : labels_(fmt::format("job=\"{}\",rank=\"{}\",host=\"{}\"", escaped(metrics.job), metrics.rank,
                            escaped(metrics.host))) {}
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void sample(double value) { text_ += fmt::format("{}{{{}}} {}\n", name_, labels_, number(value)); }
  void sample(std::string_view label, std::string_view label_value, double value) {
    text_ += fmt::format("{}{{{},{}=\"{}\"}} {}\n", name_, labels_, label, escaped(label_value), number(value));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
  }
  std::string labels_;
  std::string name_;
  std::string text_;
};

}  // namespace

void keep_reported_values(bool keeps) noexcept { keeps_values.set(keeps); }

ReportedValues reported_values() {
  Values& all = values();
  const MutexLock lock(all.mutex);
  return all.by_name;
}

std::string to_json_line(const Metrics& metrics) {
  const auto seconds = [&metrics](std::uint64_t ticks) { return static_cast<double>(ticks) * metrics.seconds_of_tick; };
  JsonWriter json;
  json.begin_object().member("time", rounded_ms(metrics.time));
  if (const auto number = job_number(metrics.job)) {
    json.member("job", *number);
  } else {
    json.member("job", metrics.job);
  }
  json.member("rank", metrics.rank)
      .member("ranks", metrics.ranks)
      .member("host", metrics.host)
      .member("pid", metrics.pid)
      .member("elapsed_s", rounded_ms(metrics.elapsed))
      .name("operations")
      .begin_object();
  for (const auto& [kind, totals] : metrics.totals.operations) {
    json.name(kind)
        .begin_object()
        .member("calls", totals.calls)
        .member("bytes", totals.bytes)
        .member("seconds", seconds(totals.ticks))
        .end_object();
  }
  json.end_object()
      .member("communication_s", seconds(metrics.totals.ticks))
      .member("waiting_s", seconds(metrics.totals.waiting_ticks))
      .name("values")
      .begin_object();
  for (const auto& [name, value] : metrics.values) json.member(name, value);
  return json.end_object().end_object().take() + "\n";
}

std::string to_prometheus(const Metrics& metrics) {
  const auto& operations = metrics.totals.operations;
  PrometheusText text(metrics);
  text.family("lockstep_ranks", "gauge", "Number of ranks of the job.");
  text.sample(metrics.ranks);
  text.family("lockstep_elapsed_seconds", "gauge", "Time since the start of the rank.");
  text.sample(metrics.elapsed);
  text.family("lockstep_operations_total", "counter", "Number of operations that are done.");
  for (const auto& [kind, totals] : operations) text.sample("operation", kind, static_cast<double>(totals.calls));
  text.family("lockstep_operation_bytes_total", "counter", "Bytes of one replica in operations that are done.");
  for (const auto& [kind, totals] : operations) text.sample("operation", kind, static_cast<double>(totals.bytes));
  text.family("lockstep_operation_seconds_total", "counter", "Time of operations that are done.");
  for (const auto& [kind, totals] : operations)
    text.sample("operation", kind, static_cast<double>(totals.ticks) * metrics.seconds_of_tick);
  text.family("lockstep_communication_seconds_total", "counter", "Time of all operations that are done.");
  text.sample(static_cast<double>(metrics.totals.ticks) * metrics.seconds_of_tick);
  text.family("lockstep_waiting_seconds_total", "counter", "Part of that time before all ranks had arrived.");
  text.sample(static_cast<double>(metrics.totals.waiting_ticks) * metrics.seconds_of_tick);
  text.family("lockstep_value", "gauge", "Last value that the program has reported.");
  for (const auto& [name, value] : metrics.values) text.sample("name", name, value);
  return text.text();
}

MetricsFile::MetricsFile(const std::string& path, int rank, int size)
    : path_(metrics_path(path, rank)),
      rank_(rank),
      size_(size),
      job_(name_of_this_job()),
      host_(host_name()),
      is_prometheus_(std::filesystem::path(path).extension() == ".prom"),
      start_(std::chrono::steady_clock::now()) {
  const auto refuse = [&](const std::string& reason) {
    throw_error(Code::invalid_argument, "LOCKSTEP_METRICS=\"{}\": the file {} cannot be written: {}", path, path_,
                reason);
  };
  if (std::filesystem::path(path).filename().empty()) refuse("the path is a directory; give the name of a file");
  if (is_prometheus_) {
    try {
      write();
    } catch (const Error& error) {
      refuse(error.text());
    }
    return;
  }
  try {
    file_ = OutputFile::append(path_);
  } catch (const FileError& error) {
    refuse(error.what());
  }
}

Metrics MetricsFile::read() const {
  Metrics metrics;
  metrics.time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  metrics.job = job_;
  metrics.rank = rank_;
  metrics.ranks = size_;
  metrics.host = host_;
  metrics.pid = ::getpid();
  metrics.elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  metrics.seconds_of_tick = clock_.conversion().seconds_per_tick();
  metrics.totals = totals_of_this_process();
  metrics.values = reported_values();
  return metrics;
}

void MetricsFile::write() {
  if (is_prometheus_) {
    replace_file(path_, to_prometheus(read()), "the metrics file");
    return;
  }
  try {
    file_.write(to_json_line(read()));
  } catch (const FileError& error) {
    throw_error(Code::unavailable, "cannot write the metrics file {}: {}", path_, error.what());
  }
}

}  // namespace detail

std::string metrics_path(const std::string& path, int rank) {
  const std::filesystem::path whole(path);
  std::filesystem::path name = whole.stem();
  name += fmt::format(".rank{}", rank);
  name += whole.extension();
  return whole.has_parent_path() ? (whole.parent_path() / name).string() : name.string();
}

void report_value(std::string_view name, double value) {
  if (detail::keeps_values.is_set()) detail::set_value(name, value);
}

}  // namespace lockstep
