// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The replica collectives that use the strategy's cross-device operations: all_gather, and all_reduce of sparse values.
// The first local replica runs the collective for the rank, on the values of all local replicas.

#include "collectives/call/descriptor.hpp"
#include "context/replica_team.hpp"
#include "context/step.hpp"
#include "cross_device/distributed_items.hpp"
#include "cross_device/gather.hpp"
#include "cross_device/slices.hpp"
#include "strategy/strategy_access.hpp"

#include <lockstep/context/replica_context.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

template <class Part>
const Part& part_of(std::span<const detail::MergePart> parts, std::size_t i) {
  return *static_cast<const Part*>(parts[i].arguments);
}

/// Throws Error(mismatch) on all ranks if the value of the first local replica (`here`) differs from the value of local
/// replica i (`there`). `options` are those of replica i.
void require_equal(ReplicaTeam& team, std::string_view call, const CommunicationOptions& options, std::string_view what,
                   std::size_t i, std::string_view here, std::string_view there) {
  if (here == there) return;
  const int first = team.first_replica_id();
  detail::propagate(team.communicator(), [&] {
    throw Error(
        Code::mismatch,
        fmt::format("{}{}: {} is {} on replica {} but {} on replica {}; all replicas must make the same call", call,
                    detail::describe(options.where), what, there, first + static_cast<int>(i), here, first),
        {team.communicator().rank(), first + static_cast<int>(i), std::string(call), -1});
  });
}

}  // namespace

void all_gather_parts(void* /*object*/, std::span<const detail::MergePart> parts, Strategy& strategy) {
  ReplicaTeam& team = StrategyAccess::team(strategy);
  const GatherPart& first = part_of<GatherPart>(parts, 0);
  std::vector<std::vector<ConstTensorView>> values(first.inputs.size());
  std::vector<int> axes;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const GatherPart& part = part_of<GatherPart>(parts, i);
    axes.push_back(part.axis);
    require_equal(team, "all_gather", part.options, "the number of values", i, std::to_string(first.inputs.size()),
                  std::to_string(part.inputs.size()));
    for (std::size_t k = 0; k < values.size(); ++k) values[k].push_back(part.inputs[k]);
  }
  team.collective([&](Communicator& communicator) {
    auto results = gather_values(StrategyAccess::ops(strategy), communicator, "all_gather", values, axes,
                                 GatherTo::components, StrategyAccess::options(strategy).merged(first.options));
    for (auto& copies : results) {
      for (std::size_t i = 0; i < parts.size(); ++i)
        part_of<GatherPart>(parts, i).results.push_back(std::move(copies[i]));
    }
  });
}

namespace {

/// The leaves of all local replicas, as the items of one collective. Entry k of each list has leaf k of all these
/// replicas.
struct MixedItems {
  std::vector<std::vector<ConstTensorView>> inputs;
  std::vector<std::vector<TensorView>> outputs;
  std::vector<std::vector<const IndexedSlices*>> sparse_inputs;
  std::vector<std::vector<IndexedSlices*>> sparse_outputs;
};

MixedItems items_of(ReplicaTeam& team, std::span<const detail::MergePart> parts) {
  const MixedPart& first = part_of<MixedPart>(parts, 0);
  MixedItems items;
  items.inputs.resize(first.inputs.size());
  items.outputs.resize(first.inputs.size());
  items.sparse_inputs.resize(first.sparse_inputs.size());
  items.sparse_outputs.resize(first.sparse_inputs.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const MixedPart& part = part_of<MixedPart>(parts, i);
    require_equal(team, "all_reduce", part.options, "op", i, to_string(first.op), to_string(part.op));
    require_equal(team, "all_reduce", part.options, "the number of dense values", i,
                  std::to_string(first.inputs.size()), std::to_string(part.inputs.size()));
    require_equal(team, "all_reduce", part.options, "the number of IndexedSlices", i,
                  std::to_string(first.sparse_inputs.size()), std::to_string(part.sparse_inputs.size()));
    for (std::size_t k = 0; k < part.inputs.size(); ++k) {
      const ConstTensorView& mine = part.inputs[k];
      require_equal(team, "all_reduce", part.options, fmt::format("dense value {}", k), i,
                    fmt::format("{}{}", to_string(first.inputs[k].dtype), to_string(first.inputs[k].shape)),
                    fmt::format("{}{}", to_string(mine.dtype), to_string(mine.shape)));
      items.inputs[k].push_back(mine);
      items.outputs[k].push_back(part.outputs[k]);
    }
    for (std::size_t k = 0; k < part.sparse_inputs.size(); ++k) {
      items.sparse_inputs[k].push_back(part.sparse_inputs[k]);
      items.sparse_outputs[k].push_back(part.sparse_outputs[k]);
    }
  }
  return items;
}

/// Device of the result for each component: the GPU of the component, or host memory.
std::vector<Device> places_of(const std::vector<const IndexedSlices*>& components) {
  std::vector<Device> places;
  for (const IndexedSlices* part : components) {
    const Device device = part->values.device();
    places.push_back(device.kind == DeviceKind::gpu ? device : Device{});
  }
  return places;
}

}  // namespace

void all_reduce_mixed_parts(void* /*object*/, std::span<const detail::MergePart> parts, Strategy& strategy) {
  ReplicaTeam& team = StrategyAccess::team(strategy);
  const MixedPart& first = part_of<MixedPart>(parts, 0);
  MixedItems mixed = items_of(team, parts);
  std::vector<Item> items;
  for (std::size_t k = 0; k < mixed.inputs.size(); ++k) items.push_back({mixed.inputs[k], mixed.outputs[k]});
  detail::propagate(team.communicator(), [&] {
    check_distributed_items(items, first.op, "all_reduce", team.local_replicas(), team.first_replica_id());
    check_slices(mixed.sparse_inputs, first.op, "all_reduce", team.local_replicas());
  });
  if (!items.empty()) team.reduce(items, first.op, {}, first.options);
  std::vector<std::vector<Device>> places;
  for (const auto& components : mixed.sparse_inputs) places.push_back(places_of(components));
  team.collective([&](Communicator& communicator) {
    auto results = reduce_slices(StrategyAccess::ops(strategy), communicator, "all_reduce", mixed.sparse_inputs,
                                 first.op, places, StrategyAccess::options(strategy).merged(first.options));
    for (std::size_t k = 0; k < results.size(); ++k) {
      for (std::size_t i = 0; i < parts.size(); ++i) *mixed.sparse_outputs[k][i] = std::move(results[k][i]);
    }
  });
}

}  // namespace lockstep
