// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/kernel_rates.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>

namespace lockstep::test {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::string us_text(const std::optional<double>& us) { return us ? fmt::format("{:.2f}", *us) : "-"; }

/// The worst value of the rows for which `is_meant` is true.
std::optional<double> worst(const KernelRates& rates, bool is_least,
                            const std::function<std::optional<double>(const KernelRow&)>& value_where_meant) {
  std::optional<double> found;
  for (const KernelRow& row : rates.rows) {
    const std::optional<double> value = value_where_meant(row);
    if (value) found = is_least ? std::min(found.value_or(*value), *value) : std::max(found.value_or(*value), *value);
  }
  return found;
}

bool is_reduction(const KernelRow& row) { return row.what.starts_with("reduce") && row.dtype == "f32"; }

bool is_long(const KernelRow& row) { return row.bytes >= 32 << 20; }

}  // namespace

std::int64_t KernelRates::wrong() const {
  std::int64_t sum = 0;
  for (const KernelRow& row : rows) sum += row.wrong;
  return sum;
}

std::vector<KernelGoal> goals_of(const KernelRates& rates) {
  const auto of_copy_of_long_ones = [&](const char* alignment) {
    return worst(rates, true, [&](const KernelRow& row) {
      const bool is_meant = is_reduction(row) && row.alignment == alignment && is_long(row);
      return is_meant ? std::optional(row.of_copy) : std::nullopt;
    });
  };
  const auto is_short = [](const KernelRow& row) { return is_reduction(row) && row.bytes <= 64 << 10; };
  return {
      {"all_reduce from 32 MiB, of a copy", true, 0.90, of_copy_of_long_ones("aligned")},
      {"the same with unaligned arrays", true, 0.80, of_copy_of_long_ones("unaligned")},
      {"all_reduce up to 64 KiB, us", false, 6,
       worst(rates, false, [&](const KernelRow& row) { return is_short(row) ? std::optional(row.us) : std::nullopt; })},
      {"the same in a graph, us", false, 2,
       worst(rates, false, [&](const KernelRow& row) { return is_short(row) ? row.graph_us : std::nullopt; })},
      {"ResNet-50's gradients packed or unpacked, of a copy", true, 0.85,
       worst(rates, true,
             [&](const KernelRow& row) {
               const bool is_meant = row.what.ends_with("pack") && row.alignment == "aligned" && is_long(row);
               return is_meant ? std::optional(row.of_copy) : std::nullopt;
             })},
  };
}

void print_heading() {
  fmt::print("# {:<15} {:>5} {:>8} {:>11} {:>9} {:>10} {:>11} {:>10} {:>7} {:>6}\n", "kernel", "type", "replicas",
             "bytes", "arrays", "time(us)", "latency(us)", "graph(us)", "of copy", "#wrong");
  std::fflush(stdout);
}

void print(const KernelRow& row) {
  fmt::print("  {:<15} {:>5} {:>8} {:>11} {:>9} {:>10.2f} {:>11.2f} {:>10} {:>7.3f} {:>6}\n", row.what, row.dtype,
             row.replicas, row.bytes, row.alignment, row.us, row.latency_us, us_text(row.graph_us), row.of_copy,
             row.wrong);
  std::fflush(stdout);
}

void print_rest(const KernelRates& rates) {
  fmt::print("# launch      {:.2f} us, {:.2f} us until the host sees its end, {} us in a graph\n", rates.launch_us,
             rates.launch_latency_us, us_text(rates.graph_launch_us));
  fmt::print("# copy        {:.0f} GB/s read and written in the GPU's memory; by lockstep's kernel {:.0f}\n",
             rates.copy_gbs, rates.kernel_copy_gbs);
  fmt::print("#             {:.1f} GB/s to the GPU, {:.1f} GB/s from it\n", rates.to_device_gbs, rates.to_host_gbs);
  for (const KernelGoal& goal : goals_of(rates)) {
    fmt::print("# goal        {:<8} {}: {}, wanted {} {:.2f}\n",
               !goal.found     ? "unknown"
               : goal.is_met() ? "met"
                               : "MISSED",
               goal.text, goal.found ? fmt::format("{:.2f}", *goal.found) : "not measured",
               goal.is_least ? "at least" : "at most", goal.wanted);
  }
  fmt::print("# Wrong values: {} {}\n", rates.wrong(), rates.wrong() == 0 ? "OK" : "FAILED");
}

Json to_json(const KernelRates& rates) {
  Json rows = Json::array();
  for (const KernelRow& row : rates.rows) {
    rows.push_back({{"what", row.what},
                    {"dtype", row.dtype},
                    {"replicas", row.replicas},
                    {"bytes", row.bytes},
                    {"alignment", row.alignment},
                    {"time_us", row.us},
                    {"latency_us", row.latency_us},
                    {"graph_us", or_null(row.graph_us)},
                    {"of_copy", row.of_copy},
                    {"wrong", row.wrong}});
  }
  Json goals = Json::array();
  for (const KernelGoal& goal : goals_of(rates)) {
    goals.push_back({{"text", goal.text},
                     {goal.is_least ? "at_least" : "at_most", goal.wanted},
                     {"found", or_null(goal.found)},
                     {"met", goal.found ? Json(goal.is_met()) : Json(nullptr)}});
  }
  return {{"gpu", rates.gpu},
          {"launch_us", rates.launch_us},
          {"launch_latency_us", rates.launch_latency_us},
          {"graph_launch_us", or_null(rates.graph_launch_us)},
          {"copy_gbs", rates.copy_gbs},
          {"kernel_copy_gbs", rates.kernel_copy_gbs},
          {"to_device_gbs", rates.to_device_gbs},
          {"to_host_gbs", rates.to_host_gbs},
          {"goals", goals},
          {"rows", rows}};
}

}  // namespace lockstep::test
