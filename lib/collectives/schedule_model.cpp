// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/schedule_model.hpp>

#include "base/check.hpp"
#include "collectives/engine/control_message.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "collectives/selection.hpp"
#include "schedule/cost_model.hpp"
#include "schedule/planner.hpp"
#include "schedule/radices.hpp"

#include <optional>

namespace lockstep {
namespace {

void check_whole(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  detail::throw_error(Code::invalid_argument, "simulate_all_reduce: {} is {}; give {} to {}", name, value, least, most);
}

void check_positive(std::string_view name, double value) {
  if (value > 0 && value <= 1e9) return;  // the condition is false for a NaN
  detail::throw_error(Code::invalid_argument, "simulate_all_reduce: {} is {}; give a number above 0, at most 10^9",
                      name, value);
}

static_assert(sizeof(detail::AgreementHeader) == detail::agreement_header_bytes);

/// See `carried_bytes`.
std::optional<std::int64_t> carried_bytes_on(const detail::RankLayout& layout, std::int64_t bytes) {
  // data of this size is never carried; making the steps, to find this out, takes time proportional to the number of
  // ranks
  if (bytes > static_cast<std::int64_t>(detail::most_carried_bytes)) return std::nullopt;
  const detail::ModelledRanks ranks(layout);
  return carried_bytes(*make_carry_steps(ranks.layout, ranks.node_leaders, 0, detail::NodePath::memory), bytes);
}

/// The schedule that lockstep runs on `layout`, with its time at the rates of `parameters`. If `segments` is not 0, the
/// vector is cut into `segments` segments.
detail::ScheduleChoice priced_plan(const detail::RankLayout& layout, const detail::CostParameters& parameters,
                                   std::int64_t bytes, int segments) {
  const auto plan = planned_schedule(layout, bytes, detail::NodePath::memory);
  if (segments == 0) segments = plan ? plan->segments : 1;
  const auto direct = [&] { return detail::RadixPattern("0").stages(layout.ranks(), layout.nodes()); };
  return priced(layout, parameters, plan ? plan->radices : direct(), bytes, segments);
}

/// The all_reduce that lockstep runs in the shared memory of one node, with its time.
ModelledAllReduce priced_in_node(const detail::RankLayout& layout, const detail::CostParameters& parameters,
                                 std::int64_t bytes) {
  const bool is_small = detail::uses_control_blocks(detail::ModelledRanks(layout).layout, bytes, BufferKind::arena);
  const auto reads = is_small ? detail::NodeReads::inputs : detail::NodeReads::slices;
  return {.radices = is_small ? "control blocks" : "slices in place",
          .time_us = node_reduce_us(parameters, layout.ranks(), bytes, reads),
          .agreement_us = agreement_cost(layout, parameters).time_us};
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
  const bool is_chosen = radices.empty() && segments == 0;
  if (is_chosen && cluster.nodes == 1 && cluster.ranks > 1) return priced_in_node(layout, parameters, bytes);
  if (const auto data = is_chosen ? carried_bytes_on(layout, bytes) : std::nullopt) {
    const detail::AgreementCost all = agreement_cost(layout, parameters, *data);
    return {"with the agreement", 1, all.time_us, all.time_us, all.messages, all.bytes};
  }
  const detail::AgreementCost agreement = agreement_cost(layout, parameters);
  const detail::ScheduleChoice plan =
      radices.empty() ? priced_plan(layout, parameters, bytes, segments)
                      : priced(layout, parameters, detail::RadixPattern(radices).stages(cluster.ranks, cluster.nodes),
                               bytes, segments);
  return {detail::to_string(plan.radices),
          plan.segments,
          agreement.time_us + plan.time_us,
          agreement.time_us,
          agreement.messages + plan.load.messages * plan.segments,
          agreement.bytes + plan.load.bytes};
}

}  // namespace lockstep
