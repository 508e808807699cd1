// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What an all_reduce does at which size, in words.

#include <lockstep/collectives/schedule_model.hpp>

#include "base/check.hpp"
#include "cluster/settings.hpp"
#include "collectives/communicator_state.hpp"
#include "collectives/host/node_operation.hpp"
#include "collectives/host/node_plan.hpp"
#include "collectives/make_communicator.hpp"
#include "schedule/mixed_radix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {
namespace {

/// How the ranks of a group exchange data.
enum class Reach : std::uint8_t { shared_memory, messages };

constexpr DType counted_type = DType::f32;

/// The rules of `make_node_reduce`, for one tensor whose buffers are all of one kind.
std::string in_node(const ReplicaLayout& layout, std::int64_t bytes, BufferKind buffers) {
  const detail::NodeTuning tuning;
  detail::HostItem item;
  item.dtype = counted_type;
  item.shape = Shape{bytes / static_cast<std::int64_t>(size_of(counted_type))};
  const auto rounds = detail::cut_rounds(std::span(&item, 1), ReduceOp::sum, layout.ranks(), tuning.round_bytes);
  int most_replicas = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) most_replicas = std::max(most_replicas, layout.count(rank));
  const detail::ControlBlockUse use = detail::control_block_use(rounds, most_replicas, tuning);
  if (use.always_flat || (use.fits && buffers == BufferKind::other)) return "control blocks";
  if (buffers == BufferKind::arena) return "slices in place";
  return fmt::format("slices through staging, {} {}", rounds.size(), rounds.size() == 1 ? "round" : "rounds");
}

/// What an all_reduce of `bytes` bytes per replica does, in the words of `selected_schedule`.
std::string selection(const ReplicaLayout& layout, Reach reach, detail::ScheduleCache& schedules, std::int64_t bytes,
                      BufferKind buffers) {
  if (layout.ranks() == 1) return "alone";
  if (const auto schedule = schedules.find(bytes)) {
    return fmt::format("radices {}, {} {}", to_string(schedule->radices()), schedule->segments(),
                       schedule->segments() == 1 ? "segment" : "segments");
  }
  return reach == Reach::shared_memory ? in_node(layout, bytes, buffers) : "direct exchange";
}

}  // namespace

std::string CommunicatorAccess::selection(const Communicator& communicator, std::int64_t bytes, BufferKind buffers) {
  if (bytes < 0) detail::throw_error(Code::invalid_argument, "selected_schedule: bytes is {}; give 0 or more", bytes);
  const Communicator::State& state = *communicator.state_;
  const bool shares = state.engine->transport().node_group() != nullptr;
  return lockstep::selection(state.layout, shares ? Reach::shared_memory : Reach::messages, *state.schedules, bytes,
                             buffers);
}

std::string selected_schedule(const Communicator& communicator, std::int64_t bytes, BufferKind buffers) {
  return CommunicatorAccess::selection(communicator, bytes, buffers);
}

std::string selected_schedule(const ModelledCluster& cluster, std::int64_t bytes, BufferKind buffers) {
  static_cast<void>(simulate_all_reduce(cluster, bytes, "f2", 1));  // checks the fields
  const detail::RankLayout ranks = detail::even_rank_layout(cluster.ranks, cluster.nodes);
  std::vector<int> leaders;
  for (std::size_t node = 0; node + 1 < ranks.first_rank.size(); ++node)
    leaders.insert(leaders.end(), static_cast<std::size_t>(ranks.first_rank[node + 1] - ranks.first_rank[node]),
                   ranks.first_rank[node]);
  const ReplicaLayout layout(std::vector<int>(static_cast<std::size_t>(cluster.ranks), 1));
  const detail::Settings settings = detail::settings_from_environment();
  detail::ScheduleCache schedules(layout, leaders, 0, {.radices = settings.radices},
                                  settings.share_memory ? detail::NodePath::memory : detail::NodePath::messages);
  const bool shares = cluster.nodes == 1 && settings.share_memory;
  return selection(layout, shares ? Reach::shared_memory : Reach::messages, schedules, bytes, buffers);
}

}  // namespace lockstep
