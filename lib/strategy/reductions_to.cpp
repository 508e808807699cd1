// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_to, batch_reduce_to and broadcast_to, and their destinations.

#include "base/check.hpp"
#include "collectives/compared_arguments.hpp"
#include "context/replica_team.hpp"
#include "strategy/local_devices.hpp"
#include "strategy/strategy_access.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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

/// The task of this rank. In a strategy of one process, the names of all jobs mean this process.
DeviceTask task_of(const ClusterResolver* resolver) {
  return resolver == nullptr ? DeviceTask{} : DeviceTask{resolver->task_id(), resolver->task_type()};
}

Device parsed_destination(std::string_view call, const std::string& name, const DeviceTask& here) {
  try {
    return parse_device(name, here);
  } catch (const Error& error) {
    detail::throw_error(error.code(), "{}: the destination: {}", call, error.text());
  }
}

Device device_here(Device device, std::string_view call) {
  require_device_here(device, std::string(call) + ": destination");
  return device;
}

/// Adds the destination of this rank. On a rank with one replica, a value on one device cannot be distinguished from a
/// value on the devices of all replicas.
void add_destination(ComparedDestinations& compared, const ResultPlaces& places, bool is_value,
                     const ReplicaLayout& layout) {
  const auto counts = layout.counts();
  const auto has_several = [](int replicas) { return replicas > 1; };
  if (is_value && (places.size() > 1 || !std::all_of(counts.begin(), counts.end(), has_several))) {
    compared.add_value();
  } else {
    compared.add_device(places[0]);
  }
}

/// The kinds of the results as text, if some are sparse: "kinds dense, sparse".
std::string kinds_of(std::span<const ReducePair> pairs) {
  const auto is_sparse = [](const ReducePair& pair) {
    return std::holds_alternative<PerReplica<IndexedSlices>>(pair.value);
  };
  std::string text;
  if (std::none_of(pairs.begin(), pairs.end(), is_sparse)) return text;
  for (const ReducePair& pair : pairs)
    text += fmt::format("{}{}", text.empty() ? "kinds " : ", ", is_sparse(pair) ? "sparse" : "dense");
  return text;
}

}  // namespace

void ComparedDestinations::add_device(Device device) { add(device.kind == DeviceKind::gpu ? a_gpu : device.index); }

void ComparedDestinations::add_value() { add(a_value); }

void ComparedDestinations::add(int destination) {
  if (runs_.empty() || runs_.back().first != destination) runs_.emplace_back(destination, 0);
  ++runs_.back().second;
}

std::string ComparedDestinations::text() const {
  if (runs_.empty()) return {};
  const auto name = [](int destination) {
    if (destination == a_value) return std::string("the devices of a value");
    return destination == a_gpu ? std::string("a GPU") : to_string(Device{DeviceKind::cpu, destination});
  };
  if (runs_.size() == 1 && runs_[0].second == 1) return "destination " + name(runs_[0].first);
  std::string text("destinations");
  for (const auto& [destination, count] : runs_) {
    text += fmt::format("{} {} of {}", &destination == &runs_[0].first ? "" : ",", count, name(destination));
  }
  return text;
}

LeafList StrategyExtended::begin_reduction(std::string_view call, const ReduceOpArgument& op) {
  return strategy_.begin_reduction(call, op);
}

Destinations::Destinations(const Variable& variable) : kind_(Kind::variable), variable_(variable) {}
Destinations::Destinations(const Tensor& value) : Destinations(value.device()) {}
Destinations::Destinations(Device device) : kind_(Kind::device), device_(device) {}
Destinations::Destinations(std::string_view device) : kind_(Kind::name), name_(device) {}
Destinations::Destinations(const char* device) : Destinations(std::string_view(device)) {}
Destinations::Destinations(const std::string& device) : Destinations(std::string_view(device)) {}
Destinations::Destinations(Components components) : kind_(Kind::components), components_(std::move(components)) {}
Destinations::Destinations(const Destinations&) = default;
Destinations::Destinations(Destinations&&) noexcept = default;
Destinations& Destinations::operator=(const Destinations&) = default;
Destinations& Destinations::operator=(Destinations&&) noexcept = default;
Destinations::~Destinations() = default;

ComparedDestinations::ComparedDestinations() = default;
ComparedDestinations::~ComparedDestinations() = default;

void StrategyExtended::run_reduction(std::string_view call, const LeafList& leaves,
                                     const ComparedDestinations& compared, const CommunicationOptions& options) {
  const detail::ComparedArguments arguments(strategy_.communicator(), compared.text());
  strategy_.run_reduction(call, leaves, options);
}

void StrategyExtended::check_cross_replica(std::string_view call) const { strategy_.check_cross_replica(call); }

ResultPlaces StrategyExtended::places_at(std::string_view call, const Destinations& destinations,
                                         ComparedDestinations& compared) {
  return detail::propagate(*this, [&] {
    ResultPlaces places = places_here(call, destinations);
    if (strategy_.communicator().size() > 1) {
      const bool is_value =
          destinations.kind_ == Destinations::Kind::variable || destinations.kind_ == Destinations::Kind::components;
      add_destination(compared, places, is_value, strategy_.communicator().layout());
    }
    return places;
  });
}

ResultPlaces StrategyExtended::places_here(std::string_view call, const Destinations& destinations) const {
  if (destinations.kind_ == Destinations::Kind::name) {
    const DeviceTask task = task_of(strategy_.cluster_resolver());
    return ResultPlaces(device_here(parsed_destination(call, destinations.name_, task), call));
  }
  if (destinations.kind_ == Destinations::Kind::device) return ResultPlaces(device_here(destinations.device_, call));
  const std::vector<Device>& own = strategy_.team_->devices();
  const auto of_copies = [&own](int count, const auto& device_of) {
    const auto is_own = [&](int i) { return device_of(i) == own[static_cast<std::size_t>(i)]; };
    bool are_own = static_cast<std::size_t>(count) == own.size();
    for (int i = 0; are_own && i < count; ++i) are_own = is_own(i);
    if (are_own) return ResultPlaces(std::span<const Device>(own));
    if (count == 1) return ResultPlaces(device_of(0));
    std::vector<Device> devices;
    for (int i = 0; i < count; ++i) devices.push_back(device_of(i));
    return ResultPlaces(std::move(devices));
  };
  if (const auto& variable = destinations.variable_) {
    return of_copies(variable->component_count(), [&](int i) { return variable->component(i).device(); });
  }
  const Destinations::Components& components = destinations.components_;
  const bool are_one_per_replica = static_cast<std::size_t>(components.count) == own.size();
  return of_copies(components.count, [&](int i) {
    const auto k = static_cast<std::size_t>(i);
    if (!components.devices.empty()) return components.devices[k];
    return are_one_per_replica && own[k].kind == DeviceKind::cpu ? own[k] : Device{};
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
  leaves.add_argument(kinds_of(pairs));
  std::vector<std::variant<TensorCells, SlicesCells>> results;
  results.reserve(pairs.size());
  ComparedDestinations compared;
  for (const ReducePair& pair : pairs) {
    const ResultPlaces places = places_at("batch_reduce_to", pair.destinations, compared);
    std::visit(
        [&]<class Leaf>(const Leaf& leaf) {
          using Result = detail::reduced_t<void, detail::component_t<Leaf>>;
          auto cells = room_for_cells<Result>(places.size());
          detail::propagate(*this, [&] { detail::start_tensor_copies(leaf, places, leaves, cells); });
          results.emplace_back(std::move(cells));
        },
        pair.value);
  }
  run_reduction("batch_reduce_to", leaves, compared, options);
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
                                       const ComparedDestinations& compared, const CommunicationOptions& options) {
  const detail::ComparedArguments arguments(strategy_.communicator(), compared.text());
  const CommunicationOptions merged = StrategyAccess::options(strategy_).merged(options);
  StrategyAccess::team(strategy_).collective([&](Communicator& communicator) {
    const bool is_root = communicator.rank() == 0;
    const Item item{is_root ? std::span(&value, 1) : std::span<const ConstTensorView>(), outputs};
    StrategyAccess::ops(strategy_).broadcast(communicator, std::span(&item, 1), 0, merged);
  });
}

}  // namespace lockstep
