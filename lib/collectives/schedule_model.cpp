// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/schedule_model.hpp>

#include "base/check.hpp"
#include "schedule/planner.hpp"

namespace lockstep {
namespace {

void check_whole(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  detail::throw_error(Code::invalid_argument, "simulate_all_reduce: {} is {}; give {} to {}", name, value, least, most);
}

void check_positive(std::string_view name, double value) {
  if (value > 0 && value <= 1e9) return;  // not so for a NaN
  detail::throw_error(Code::invalid_argument, "simulate_all_reduce: {} is {}; give a number above 0, at most 10^9",
                      name, value);
}

}  // namespace

ModelledAllReduce simulate_all_reduce(const ModelledCluster& cluster, std::int64_t bytes, std::string_view radices,
                                      int segments) {
  check_whole("ranks", cluster.ranks, 1, 1'000'000);
  check_whole("nodes", cluster.nodes, 1, cluster.ranks);
  check_positive("latency_us", cluster.latency_us);
  check_positive("gbit", cluster.gbit);
  check_positive("overhead_us", cluster.overhead_us);
  check_positive("memory_gbs", cluster.memory_gbs);
  check_whole("bytes", bytes, 0, std::int64_t{1} << 44);
  check_whole("segments", segments, 0, 1'000'000);
  detail::CostParameters parameters;
  parameters.latency_us = cluster.latency_us;
  parameters.port_gbs = cluster.gbit / 8;
  parameters.overhead_us = cluster.overhead_us;
  parameters.memory_gbs = cluster.memory_gbs;
  const detail::RankLayout layout = detail::even_rank_layout(cluster.ranks, cluster.nodes);
  detail::ScheduleChoice plan;
  if (radices.empty() && segments == 0) {
    plan = detail::plan_all_reduce(layout, parameters, bytes);
  } else {
    const auto stages = radices.empty() ? detail::plan_all_reduce(layout, parameters, bytes).radices
                                        : detail::RadixPattern(radices).stages(cluster.ranks, cluster.nodes);
    plan = detail::priced(layout, parameters, stages, bytes, segments);
  }
  return {detail::to_string(plan.radices), plan.segments, plan.time_us, plan.load.messages * plan.segments,
          plan.load.bytes};
}

}  // namespace lockstep
