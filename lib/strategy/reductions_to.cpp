// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_to, batch_reduce_to and broadcast_to, and their destinations.

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "strategy/local_devices.hpp"
#include "strategy/strategy_access.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <optional>
#include <string>
#include <utility>

namespace lockstep {
namespace {

using TensorCells = std::vector<detail::Cell<Tensor>>;
using SlicesCells = std::vector<detail::Cell<IndexedSlices>>;

template <class Result>
std::vector<detail::Cell<Result>> room_for_cells(int count) {
  std::vector<detail::Cell<Result>> cells;
  cells.reserve(static_cast<std::size_t>(count));
  return cells;
}

}  // namespace

std::optional<Device> Destinations::one_device(std::string_view call) const {
  if (!name_) return device_;
  try {
    return parse_device(*name_);
  } catch (const Error& error) {
    detail::throw_error(error.code(), "{}: the destination: {}", call, error.text());
  }
}

LeafList StrategyExtended::begin_reduction(std::string_view call, const ReduceOpArgument& op) {
  return strategy_.begin_reduction(call, op);
}

void StrategyExtended::run_reduction(std::string_view call, const LeafList& leaves,
                                     const CommunicationOptions& options) {
  strategy_.run_reduction(call, leaves, options);
}

void StrategyExtended::check_cross_replica(std::string_view call) const { strategy_.check_cross_replica(call); }

ResultPlaces StrategyExtended::places_at(std::string_view call, const Destinations& destinations) {
  return detail::propagate(*this, [&] {
    if (destinations.in_host_memory()) return ResultPlaces(strategy_.local_replicas());
    const std::optional<Device> one = destinations.one_device(call);
    if (!one) return ResultPlaces(std::span<const Device>(strategy_.team_->devices()));
    constexpr int one_copy = 1;
    require_device_here(*one, std::string(call) + ": destination");
    return ResultPlaces(one_copy, *one);
  });
}

void detail::propagate_current_exception(const StrategyExtended& extended, FoundBy found_by) {
  propagate_current_exception(extended.strategy_.communicator(), found_by);
}

LeafList StrategyExtended::leaves_for(std::string_view call, ReduceOp op) const {
  return LeafList(op, {call, strategy_.num_replicas_in_sync(), own_replicas(), strategy_.counts_once_per_rank(), this},
                  strategy_.result_memory_);
}

detail::LocalReplicas StrategyExtended::own_replicas() const noexcept { return strategy_.own_replicas(); }

std::vector<ReducedValue> StrategyExtended::batch_reduce_to(const ReduceOpArgument& op,
                                                            std::span<const ReducePair> pairs,
                                                            const CommunicationOptions& options) {
  LeafList leaves = begin_reduction("batch_reduce_to", op);
  leaves.require_collective();
  std::vector<std::variant<TensorCells, SlicesCells>> results;
  results.reserve(pairs.size());
  for (const ReducePair& pair : pairs) {
    const ResultPlaces places = places_at("batch_reduce_to", pair.destinations);
    std::visit(
        [&]<class Leaf>(const Leaf& leaf) {
          using Result = detail::reduced_t<void, detail::component_t<Leaf>>;
          auto cells = room_for_cells<Result>(places.size());
          detail::propagate(*this, [&] { detail::start_tensor_copies(leaf, places, leaves, cells); });
          results.emplace_back(std::move(cells));
        },
        pair.value);
  }
  run_reduction("batch_reduce_to", leaves, options);
  std::vector<ReducedValue> reduced;
  reduced.reserve(pairs.size());
  for (auto& result : results) {
    std::visit([&](auto& cells) { reduced.emplace_back(detail::mirrored_of(std::span(cells))); }, result);
  }
  return reduced;
}

std::vector<ReducedValue> StrategyExtended::batch_reduce_to(const ReduceOpArgument& op,
                                                            const std::vector<ReducePair>& pairs,
                                                            const CommunicationOptions& options) {
  return batch_reduce_to(op, std::span<const ReducePair>(pairs), options);
}

void StrategyExtended::broadcast_views(ConstTensorView value, std::span<const TensorView> outputs,
                                       const CommunicationOptions& options) {
  const CommunicationOptions merged = StrategyAccess::options(strategy_).merged(options);
  StrategyAccess::team(strategy_).collective([&](Communicator& communicator) {
    const bool is_root = communicator.rank() == 0;
    const Item item{is_root ? std::span(&value, 1) : std::span<const ConstTensorView>(), outputs};
    StrategyAccess::ops(strategy_).broadcast(communicator, std::span(&item, 1), 0, merged);
  });
}

}  // namespace lockstep
