// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes of single rows of a variable.

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/step.hpp"
#include "context/thread_context.hpp"
#include "core/with_extent.hpp"
#include "cross_device/slices.hpp"
#include "device/elementwise.hpp"
#include "device/host/host_elements.hpp"
#include "values/sparse_update.hpp"
#include "variables/variable_state.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/cross_device/all_reduce_cross_device_ops.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/variables/variable.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// Concatenates the rows of all replicas, in the order of replica ids, on each device in `places`; `local` holds the
/// slices of this rank's replicas. Replicas may have different numbers of rows; dtypes and row shapes are equal. Either
/// all slices of all ranks are in host memory, or all are on GPUs. Cross-replica context. Collective; throws
/// Error(mismatch) if the names of `call` differ between ranks. Cost: see reduce_slices.
std::vector<IndexedSlices> gather_slices(ReplicaTeam& team, std::span<const IndexedSlices> local,
                                         std::span<const Device> places, const ReduceOptions& call) {
  CommunicationOptions options;
  options.where = call.where;
  std::vector<const IndexedSlices*> components;
  for (const IndexedSlices& slices : local) components.push_back(&slices);
  const std::vector<Device> all_places(places.begin(), places.end());
  std::vector<IndexedSlices> all;
  team.collective([&](Communicator& communicator) {
    AllReduceCrossDeviceOps ops;
    auto results = reduce_slices(ops, communicator, call.name, std::span(&components, 1), ReduceOp::sum,
                                 std::span(&all_places, 1), options);
    all = std::move(results.front());
  });
  return all;
}

/// Uninitialized slices with `count` rows, which have the row shape and dtype of `like`.
IndexedSlices rows_like(const IndexedSlices& like, std::int64_t count) {
  return {Tensor::uninitialized(like.values.dtype(), detail::with_extent(like.values.shape(), 0, count)),
          Tensor::uninitialized(DType::i64, Shape{count}), like.rows};
}

/// Returns the rows of replica 0 on every rank. All slices must be in host memory. Context and errors are as for
/// gather_slices. Collective. Cost: two broadcasts.
IndexedSlices broadcast_slices(ReplicaTeam& team, std::span<const IndexedSlices> local, const ReduceOptions& call) {
  if (team.communicator().size() == 1) return local.front();
  const bool is_root = team.communicator().rank() == 0;
  const auto broadcast = [&](std::span<const Item> items) { team.broadcast(items, 0, call); };
  std::int64_t count = local.front().indices.element_count();
  const ConstTensorView count_input = view_of(std::span<const std::int64_t>(&count, 1));
  const TensorView count_output = view_of(std::span(&count, 1));
  const Item count_item{std::span(&count_input, 1).first(is_root ? 1 : 0),
                        std::span(&count_output, 1).first(is_root ? 0 : 1)};
  broadcast(std::span(&count_item, 1));
  IndexedSlices first = is_root ? local.front() : rows_like(local.front(), count);
  if (count == 0) return first;
  const std::array<ConstTensorView, 2> inputs{std::as_const(first.values).view(), std::as_const(first.indices).view()};
  const std::array<TensorView, 2> outputs{first.values.view(), first.indices.view()};
  const auto item = [&](std::size_t k) {
    return Item{std::span(inputs).subspan(k, is_root ? 1 : 0), std::span(outputs).subspan(k, is_root ? 0 : 1)};
  };
  const std::array<Item, 2> items{item(0), item(1)};
  broadcast(items);
  return first;
}

using Place = VariableState::Place;
using Use = VariableState::Use;
using detail::ElementOp;

constexpr std::array<const char*, 7> row_op_names{"scatter_add", "scatter_sub", "scatter_mul",   "scatter_div",
                                                  "scatter_min", "scatter_max", "scatter_update"};

const char* name_of(ElementOp op) { return row_op_names[static_cast<std::size_t>(op)]; }

bool is_reduced(const VariableState& state) {
  return state.options.aggregation == VariableAggregation::sum ||
         state.options.aggregation == VariableAggregation::mean;
}

/// Throws Error(unimplemented) if the variable does not support the operation in this context.
void check_operation(const VariableState& state, const Use& use, ElementOp op) {
  if (use.place == Place::plain) return;
  if (state.is_on_read()) {
    detail::throw_error(Code::unimplemented,
                        "{} to variable \"{}\": variables that are synchronized on read have no scatter operations; "
                        "assign the whole variable, or create it with synchronization on_write",
                        name_of(op), state.options.name);
  }
  if (use.place != Place::replica) return;
  state.require_aggregation(name_of(op));
  if (is_reduced(state) && (op == ElementOp::min || op == ElementOp::max || op == ElementOp::update)) {
    detail::throw_error(
        Code::unimplemented,
        "{} to variable \"{}\": in replica context the variable's aggregation {} has no meaning for this call; "
        "create the variable with aggregation only_first_replica, or call it in merge_call",
        name_of(op), state.options.name, to_string(state.options.aggregation));
  }
}

/// Throws Error(invalid_argument) unless `slices` are rows of the variable.
void check_slices(const VariableState& state, ElementOp op, const IndexedSlices& slices) {
  slices.validate(name_of(op));
  const ConstTensorView copy = state.copies.front().view();
  if (copy.shape.rank() == 0) {
    detail::throw_error(Code::invalid_argument,
                        "{} to variable \"{}\": the variable is a scalar, which has no rows; use assign", name_of(op),
                        state.options.name);
  }
  if (slices.values.dtype() != copy.dtype || slices.dense_shape() != copy.shape) {
    detail::throw_error(Code::invalid_argument,
                        "{} to variable \"{}\": the IndexedSlices are rows of a tensor {}{}, but the variable is {}{}; "
                        "dtype and shape must be the same",
                        name_of(op), state.options.name, to_string(slices.values.dtype()),
                        to_string(slices.dense_shape()), to_string(copy.dtype), to_string(copy.shape));
  }
  if (copy.dtype == DType::boolean && op != ElementOp::update) {
    detail::throw_error(Code::invalid_argument,
                        "{} to variable \"{}\": the elements are bool, which support only scatter_update", name_of(op),
                        state.options.name);
  }
  if (op == ElementOp::div && detail::has_integer_zero(slices.values.view())) {
    detail::throw_error(Code::invalid_argument, "scatter_div to variable \"{}\": an integer is divided by zero",
                        state.options.name);
  }
}

/// Returns `slices`. If the values overlap the variable's memory, they are copied, because writing the variable would
/// change them. Indices on a GPU are copied to the host, where they are read several times.
IndexedSlices apart_from(const VariableState& state, const IndexedSlices& slices) {
  const auto begin_of = [](const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data()); };
  const auto end_of = [&](const Tensor& tensor) { return begin_of(tensor) + tensor.byte_count(); };
  const bool overlap = std::any_of(state.copies.begin(), state.copies.end(), [&](const Tensor& copy) {
    return begin_of(copy) < end_of(slices.values) && begin_of(slices.values) < end_of(copy);
  });
  return {overlap ? slices.values.clone() : slices.values, detail::host_tensor(slices.indices), slices.rows};
}

/// The arguments of one replica's call.
struct ScatterRequest {
  const VariableState* state;
  ElementOp op;
  IndexedSlices slices;
  std::source_location where;
};

IndexedSlices at(Device place, const IndexedSlices& slices) {
  return {slices.values.to(place), slices.indices.to(place), slices.rows};
}

/// For each local replica, the rows of all replicas. If all copies of all ranks are on GPUs, GPUs exchange the rows.
PerReplica<IndexedSlices> gathered(ReplicaTeam& team, const VariableState& state, std::vector<IndexedSlices> local,
                                   const ReduceOptions& call) {
  const int first = team.first_replica_id();
  if (team.replicas() == 1) return PerReplica<IndexedSlices>(std::move(local), first);
  if (team.devices_are_mixed() || detail::is_on_host(state.copies.front().device())) {
    for (IndexedSlices& slices : local) slices = at(Device{}, slices);
    const Device host;
    const std::vector<IndexedSlices> all = gather_slices(team, local, std::span(&host, 1), call);
    return PerReplica<IndexedSlices>(std::vector(local.size(), all.front()), first);
  }
  std::vector<Device> places;
  for (const Tensor& copy : state.copies) places.push_back(copy.device());
  for (std::size_t i = 0; i < local.size(); ++i) local[i] = at(places[i], local[i]);
  return PerReplica<IndexedSlices>(gather_slices(team, local, places, call), first);
}

/// For each local replica, the rows of replica 0. If there are several ranks, the rows are sent through host memory.
PerReplica<IndexedSlices> broadcast(ReplicaTeam& team, std::vector<IndexedSlices> local, const ReduceOptions& call) {
  if (team.communicator().size() > 1) {
    for (IndexedSlices& slices : local) slices = at(Device{}, slices);
  }
  return PerReplica<IndexedSlices>(std::vector(local.size(), broadcast_slices(team, local, call)),
                                   team.first_replica_id());
}

/// For each local replica, the slices that the replica applies to its copy. Called in the rendezvous of the local
/// replicas.
PerReplica<IndexedSlices> joined(ReplicaTeam& team, const PerReplica<ScatterRequest>& requests) {
  const ScatterRequest& first = requests.component(0);
  std::vector<IndexedSlices> local;
  for (int i = 0; i < requests.size(); ++i) {
    const ScatterRequest& request = requests.component(i);
    if (request.state != first.state || request.op != first.op) {
      detail::throw_error(Code::failed_precondition,
                          "{}: replica {} writes variable \"{}\" while replica {} calls {} on variable \"{}\"; all "
                          "replicas must make the same writes in the same order",
                          name_of(request.op), requests.first_replica() + i, request.state->options.name,
                          requests.first_replica(), name_of(first.op), first.state->options.name);
    }
    local.push_back(request.slices);
  }
  const std::string name = name_of_write({name_of(first.op), first.state->options.name});
  const ReduceOptions call{.order = {}, .name = name, .where = first.where};
  return is_reduced(*first.state) ? gathered(team, *first.state, std::move(local), call)
                                  : broadcast(team, std::move(local), call);
}

}  // namespace

const Variable& Variable::scatter(Scatter how, const IndexedSlices& slices, const std::source_location& where) const {
  VariableState& state = *state_;
  const auto op = static_cast<ElementOp>(how);
  const Use use = state.use_for_write();
  IndexedSlices rows = slices;
  const auto check = [&] {
    check_operation(state, use, op);
    rows = apart_from(state, slices);
    check_slices(state, op, rows);
  };
  if (use.place == Place::cross_replica) {
    detail::propagate(state.team->communicator(), check);
  } else {
    check();
  }
  if (use.place == Place::cross_replica) {
    detail::propagate(state.team->communicator(), [&] {
      for (Tensor& copy : state.copies) detail::apply_sparse_update(copy.view(), op, rows, 1);
    });
  } else if (use.place != Place::replica) {
    detail::apply_sparse_update(state.copy(use.copy).view(), op, rows, 1);
  } else {
    ReplicaContext& replica = *thread_context().replica;
    StepAccess::name_merge_call(replica, {name_of(op), state.options.name});
    const IndexedSlices all = replica.merge_call(
        [&state](Strategy&, const PerReplica<ScatterRequest>& requests) { return joined(*state.team, requests); },
        ScatterRequest{&state, op, rows, where});
    const bool is_mean = state.options.aggregation == VariableAggregation::mean;
    detail::apply_sparse_update(state.copy(use.copy).view(), op, all, is_mean ? state.team->replicas() : 1);
  }
  return *this;
}

}  // namespace lockstep
