// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/row.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace perf {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

void add_times(Json& json, std::string_view prefix, const Outcome* outcome) {
  const auto add = [&](std::string_view name, double Times::* member) {
    json[fmt::format("{}{}_us", prefix, name)] = outcome != nullptr ? Json(outcome->times_us.*member) : Json(nullptr);
  };
  add("p10", &Times::p10);
  add("p50", &Times::p50);
  add("p90", &Times::p90);
  add("p99", &Times::p99);
}

}  // namespace

std::string Identity::text() const {
  return fmt::format("{} {} {} {} {} {} {} {} {}", collective, list, mode, form, count, dtype, op,
                     in_place ? "in place" : "out of place", replicas_per_rank);
}

std::string Identity::name() const {
  std::string result(collective);
  if (!dtype.empty()) result += fmt::format(" {}", dtype);
  if (!op.empty()) result += fmt::format(" {}", op);
  if (form != to_string(Form::blocking)) result += fmt::format(", {}", form);
  return result;
}

std::string Identity::full_name() const {
  std::string result = name();
  if (!list.empty()) result.insert(collective.size(), " of " + list);
  if (!mode.empty()) result += ", " + mode;
  return in_place ? result + ", in place" : result;
}

std::optional<double> Row::ratio() const { return peer ? std::optional(time_us() / peer->times_us.p50) : std::nullopt; }

std::optional<double> Row::baseline_ratio() const {
  return baseline_us ? std::optional(time_us() / *baseline_us) : std::nullopt;
}

std::optional<double> Row::of_limit() const {
  return limit_us && time_us() > 0 ? std::optional(*limit_us / time_us()) : std::nullopt;
}

std::optional<double> Row::of_hbm() const {
  return floor_us && time_us() > 0 ? std::optional(*floor_us / time_us()) : std::nullopt;
}

double Row::algorithm_gbs() const noexcept {
  return time_us() > 0 ? static_cast<double>(bytes * calls) / time_us() * 1e-3 : 0;
}

bool Row::is_right() const noexcept { return ours.wrong.value_or(0) == 0 && (!peer || peer->wrong.value_or(0) == 0); }

bool Row::cache_line_has_changed() const noexcept {
  return cache_line_differs(cache_line_before_us, cache_line_after_us);
}

bool cache_line_differs(std::optional<double> before_us, std::optional<double> after_us) noexcept {
  if (!before_us || !after_us) return false;
  return std::max(*before_us, *after_us) > 2 * std::min(*before_us, *after_us);
}

Json to_json(const Row& row, const Options& options) {
  const Outcome* const peer = row.peer ? &*row.peer : nullptr;
  const bool is_mpi = options.compare != Peer::nccl;
  const std::string prefix = is_mpi ? "mpi_" : "nccl_";
  Json json{
      {"collective", row.identity.collective},
      {"list", or_null(row.identity.list)},
      {"mode", or_null(row.identity.mode)},
      {"tensors", row.tensors},
      {"bytes", row.bytes},
      {"count", row.identity.count},
      {"dtype", or_null(row.identity.dtype)},
      {"op", or_null(row.identity.op)},
      {"root", row.root},
      {"replicas_per_rank", row.identity.replicas_per_rank},
      {"memory", options.memory},
      {"mpi_memory", peer != nullptr && is_mpi ? Json(options.mpi_memory) : Json(nullptr)},
      {"order", lockstep::to_string(*options.order)},
      {"form", row.identity.form},
      {"calls", row.calls},
      {"prepared", options.prepared && row.identity.collective == traits(Collective::all_reduce).name},
      {"in_place", row.identity.in_place},
      {"time_us", row.time_us()},
      {prefix + "time_us", peer != nullptr ? Json(peer->times_us.p50) : Json(nullptr)},
      {"ratio", or_null(row.ratio())},
      {prefix + "call", peer != nullptr ? or_null(row.peer_call) : Json(nullptr)},
      {"limit_us", or_null(row.limit_us)},
      {"of_limit", or_null(row.of_limit())},
      {"hbm_floor_us", or_null(row.floor_us)},
      {"of_hbm", or_null(row.of_hbm())},
      {"baseline_us", or_null(row.baseline_us)},
      {"baseline_ratio", or_null(row.baseline_ratio())},
  };
  add_times(json, "", &row.ours);
  add_times(json, prefix, peer);
  json["posted_us"] = or_null(row.ours.posted_us);
  json["algbw_gbs"] = row.algorithm_gbs();
  json["busbw_gbs"] = row.bus_gbs();
  json["cache_line_before_us"] = or_null(row.cache_line_before_us);
  json["cache_line_after_us"] = or_null(row.cache_line_after_us);
  json["wrong"] = or_null(row.ours.wrong);
  json[prefix + "wrong"] = peer != nullptr ? or_null(peer->wrong) : Json(nullptr);
  return json;
}

}  // namespace perf
