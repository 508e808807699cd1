// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Describes in words how an all_reduce of a given size runs.

#include "collectives/selection.hpp"

#include <lockstep/collectives/schedule_model.hpp>

#include "base/check.hpp"
#include "base/processor.hpp"
#include "cluster/settings.hpp"
#include "collectives/communicator_state.hpp"
#include "collectives/host/node_operation.hpp"
#include "collectives/host/node_plan.hpp"
#include "collectives/make_communicator.hpp"
#include "schedule/mixed_radix.hpp"
#include "transport/shm/control_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {
namespace {

/// How the ranks of a group exchange data.
enum class Reach : std::uint8_t { shared_memory, messages };

constexpr DType counted_type = DType::f32;

detail::HostItem item_of(std::int64_t bytes) {
  detail::HostItem item;
  item.dtype = counted_type;
  item.shape = Shape{bytes / static_cast<std::int64_t>(size_of(counted_type))};
  return item;
}

std::vector<detail::NodeRound> rounds_in_node(const ReplicaLayout& layout, std::int64_t bytes) {
  const detail::HostItem item = item_of(bytes);
  return detail::cut_rounds(std::span(&item, 1), ReduceOp::sum, layout.ranks(), detail::NodeTuning{}.round_bytes);
}

std::string in_node(const ReplicaLayout& layout, std::int64_t bytes, BufferKind buffers) {
  if (detail::uses_control_blocks(layout, bytes, buffers)) return "control blocks";
  if (buffers == BufferKind::arena) return "slices in place";
  const std::size_t rounds = rounds_in_node(layout, bytes).size();
  return fmt::format("slices through staging, {} {}", rounds, rounds == 1 ? "round" : "rounds");
}

/// Describes how an all_reduce of `bytes` bytes per replica runs, in the words of `selected_schedule`. `steps` is null
/// if no data travels with the agreement.
std::string selection(const ReplicaLayout& layout, Reach reach, detail::ScheduleCache& schedules,
                      const detail::CarrySteps* steps, std::int64_t bytes, BufferKind buffers) {
  if (layout.ranks() == 1) return "alone";
  // radices of the environment are compared between ranks as part of a schedule; carried data has no schedule
  if (steps != nullptr && schedules.forced_radices().empty() && detail::carried_bytes(*steps, bytes))
    return "with the agreement";
  if (const auto schedule = schedules.find(bytes)) {
    return fmt::format("radices {}, {} {}", to_string(schedule->radices()), schedule->segments(),
                       schedule->segments() == 1 ? "segment" : "segments");
  }
  return reach == Reach::shared_memory ? in_node(layout, bytes, buffers) : "direct exchange";
}

}  // namespace

detail::ModelledRanks::ModelledRanks(const RankLayout& ranks)
    : layout(std::vector<int>(static_cast<std::size_t>(ranks.ranks()), 1)) {
  for (std::size_t node = 0; node + 1 < ranks.first_rank.size(); ++node)
    node_leaders.insert(node_leaders.end(),
                        static_cast<std::size_t>(ranks.first_rank[node + 1] - ranks.first_rank[node]),
                        ranks.first_rank[node]);
}

bool detail::uses_control_blocks(const ReplicaLayout& layout, std::int64_t bytes, BufferKind buffers) {
  if (bytes > static_cast<std::int64_t>(ControlBlock::most_payload_bytes)) return false;
  int most_replicas = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) most_replicas = std::max(most_replicas, layout.count(rank));
  const ControlBlockUse use =
      control_block_use(rounds_in_node(layout, bytes), most_replicas, tuning_for(layout.ranks()));
  return use.always_flat || (use.fits && buffers == BufferKind::other);
}

std::optional<std::int64_t> detail::carried_bytes(const CarrySteps& steps, std::int64_t bytes) {
  const HostItem item = item_of(bytes);
  const auto call = Call::all_reduce(ReduceOp::sum);
  const Descriptor descriptor = make_descriptor(call, Order::canonical, std::span(&item, 1), {});
  if (!is_carried(descriptor, steps, std::span(&item, 1))) return std::nullopt;
  return static_cast<std::int64_t>(whole_lines(static_cast<std::size_t>(item.count()) * size_of(counted_type)));
}

std::string CommunicatorAccess::selection(const Communicator& communicator, std::int64_t bytes, BufferKind buffers) {
  if (bytes < 0) detail::throw_error(Code::invalid_argument, "selected_schedule: bytes is {}; give 0 or more", bytes);
  const Communicator::State& state = *communicator.state_;
  const detail::NodeGroup* const node = state.engine->transport().node_group();
  if (state.level_schedule != nullptr) {
    if (detail::carried_bytes(*state.carry_steps, bytes))
      return fmt::format("with the agreement, levels {}", node->levels().text());
    // of the radices, the first has no number: it is that of the ranks of a domain
    if (bytes <= detail::most_level_bytes)
      return fmt::format("levels {}{}", node->levels().radix(0), to_string(state.level_schedule->radices()).substr(1));
  }
  const bool shares = node != nullptr;
  return lockstep::selection(state.layout, shares ? Reach::shared_memory : Reach::messages, *state.schedules,
                             state.carry_steps.get(), bytes, buffers);
}

std::string selected_schedule(const Communicator& communicator, std::int64_t bytes, BufferKind buffers) {
  return CommunicatorAccess::selection(communicator, bytes, buffers);
}

std::string selected_schedule(const ModelledCluster& cluster, std::int64_t bytes, BufferKind buffers) {
  static_cast<void>(simulate_all_reduce(cluster, bytes, "f2", 1));  // checks the fields of `cluster`
  const detail::ModelledRanks ranks(detail::even_rank_layout(cluster.ranks, cluster.nodes));
  const detail::Settings settings = detail::settings_from_environment();
  const auto path = settings.share_memory ? detail::NodePath::memory : detail::NodePath::messages;
  detail::ScheduleCache schedules(ranks.layout, ranks.node_leaders, 0, {.radices = settings.radices}, path);
  const bool shares = cluster.nodes == 1 && settings.share_memory;
  const auto steps = shares ? nullptr : detail::make_carry_steps(ranks.layout, ranks.node_leaders, 0, path);
  return selection(ranks.layout, shares ? Reach::shared_memory : Reach::messages, schedules, steps.get(), bytes,
                   buffers);
}

}  // namespace lockstep
