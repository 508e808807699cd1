// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "run/metrics.hpp"

#include "apps/options/program_options.hpp"
#include "base/json_reader.hpp"

#include <lockstep/cluster/report_value.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

namespace run {
namespace {

/// The last line that ends with a newline, if it has at most 64 KiB; a rank may be writing the one after it.
std::string last_line(const std::filesystem::path& path) {
  constexpr std::streamoff most = 65536;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  std::string tail(static_cast<std::size_t>(std::min(size, most)), '\0');
  file.seekg(size - static_cast<std::streamoff>(tail.size()));
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  const std::size_t end = tail.rfind('\n');
  if (!file || end == std::string::npos || end == 0) return {};
  const std::size_t begin = tail.rfind('\n', end - 1);
  return begin == std::string::npos ? tail.substr(0, end) : tail.substr(begin + 1, end - begin - 1);
}

double number(const nlohmann::json& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_number() ? found->get<double>() : 0;
}

std::optional<RankMetrics> parse(const std::string& line, int rank) {
  lockstep::detail::JsonDocument document;
  try {
    document = lockstep::detail::read_json(line);
  } catch (const lockstep::detail::JsonError&) {
    return std::nullopt;
  }
  const nlohmann::json& record = *document;
  if (!record.is_object()) return std::nullopt;
  RankMetrics metrics;
  metrics.rank = rank;
  if (const auto host = record.find("host"); host != record.end() && host->is_string())
    metrics.host = options::printable(host->get<std::string>());
  metrics.time = number(record, "time");
  metrics.elapsed_s = number(record, "elapsed_s");
  metrics.communication_s = number(record, "communication_s");
  metrics.waiting_s = number(record, "waiting_s");
  if (const auto values = record.find("values"); values != record.end() && values->is_object()) {
    for (const auto& [name, value] : values->items())
      if (value.is_number()) metrics.values[options::printable(name)] = value.get<double>();
  }
  return metrics;
}

std::string text_of_exchange(const std::vector<RankMetrics>& metrics) {
  double elapsed_s = 0;
  double communication_s = 0;
  for (const RankMetrics& rank : metrics) {
    elapsed_s += rank.elapsed_s;
    communication_s += rank.communication_s;
  }
  if (elapsed_s <= 0) return {};
  std::string text = fmt::format("communication {:.0f} % of the time", 100 * communication_s / elapsed_s);
  const auto waits_less = [](const RankMetrics& a, const RankMetrics& b) { return a.waiting_s < b.waiting_s; };
  const auto [least, most] = std::minmax_element(metrics.begin(), metrics.end(), waits_less);
  if (least->waiting_s < most->waiting_s) {
    text += fmt::format(", slowest rank {}{} (waited {:.1f} s; rank {}: {:.1f} s)", least->rank,
                        least->host.empty() ? "" : " on " + least->host, least->waiting_s, most->rank, most->waiting_s);
  }
  return text;
}

}  // namespace

std::vector<RankMetrics> read_metrics(const std::filesystem::path& file, int ranks, double since) {
  std::vector<RankMetrics> all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::optional<RankMetrics> metrics = parse(last_line(lockstep::metrics_path(file.string(), rank)), rank);
    if (metrics && metrics->time >= since) all.push_back(*std::move(metrics));
  }
  return all;
}

Summary summarize(const std::vector<RankMetrics>& metrics) {
  Summary summary;
  std::map<std::string, double> values;
  for (const RankMetrics& rank : metrics) {
    summary.elapsed_s = std::max(summary.elapsed_s, rank.elapsed_s);
    values.insert(rank.values.begin(), rank.values.end());
  }
  if (const auto found = values.find("progress"); found != values.end()) {
    if (std::isfinite(found->second)) summary.progress = std::clamp(found->second, 0.0, 1.0);
    values.erase(found);
  }
  for (const auto& [name, value] : values)
    summary.values += fmt::format("{}{} {:.5g}", summary.values.empty() ? "" : ", ", name, value);
  summary.exchange = text_of_exchange(metrics);
  return summary;
}

}  // namespace run
