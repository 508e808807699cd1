// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "variables/variable_state.hpp"

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/step.hpp"
#include "context/thread_context.hpp"

#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/device/gpu.hpp>

#include <fmt/format.h>

#include <source_location>
#include <span>
#include <string>

namespace lockstep {

VariableState::Use VariableState::use() const {
  const ThreadContext& context = thread_context();
  if (team->is_default()) return {Place::plain, 0};
  if (context.mode != Mode::outside && context.team != team.get())
    detail::require_no_other_strategy(*team, "variable \"" + options.name + "\"");
  if (team->has_plain_variables()) return {Place::plain, 0};
  if (context.mode == Mode::outside) return {Place::cross_replica, 0};
  switch (context.mode) {
    case Mode::replica: return {Place::replica, context.component};
    case Mode::update: return {Place::update, context.component};
    default: return {Place::cross_replica, 0};
  }
}

VariableState::Use VariableState::use_for_write() const {
  const ThreadContext& context = thread_context();
  if (context.replica != nullptr && context.team != team.get() && team->is_default()) {
    detail::throw_error(
        Code::failed_precondition,
        "variable \"{}\": it was created outside every scope, so it has one copy, which a step of {} may read but not "
        "write; create it through that strategy",
        options.name, context.team->title());
  }
  return use();
}

void VariableState::refuse(const Use& use, const Error& error) const {
  if (use.place == Place::cross_replica) detail::propagate(team->communicator(), [&] { throw Error(error); });
  throw Error(error);
}

void VariableState::aggregate_copies(TensorView target) const {
  if (options.aggregation == VariableAggregation::none) {
    detail::propagate(team->communicator(), [&] {
      detail::throw_error(Code::invalid_argument,
                          "variable \"{}\": it is read outside of step functions, where it is the aggregate of all "
                          "replicas' copies, but its aggregation is none. Do one of: create it with aggregation sum, "
                          "mean or only_first_replica; read it in the step function; or take its components",
                          options.name);
    });
  }
  if (team->replicas() == 1) return lockstep::copy(target, copies.front().view());  // one copy is its own aggregate
  const ConstTensorView first = copies.front().view();
  if (first.device.kind != target.device.kind) {
    // aggregate on the device of the copies, so that all ranks use the same path even if the targets of the ranks are
    // on different devices
    Tensor there = detail::propagate(team->communicator(), [&first] {
      return Tensor::uninitialized(first.dtype, first.shape, nullptr, first.device);
    });
    aggregate_copies(there.view());
    return lockstep::copy(target, there.view());
  }
  std::vector<ConstTensorView> views;
  for (const Tensor& copy : copies) views.push_back(copy.view());
  const std::string name = "read " + options.name;
  if (options.aggregation != VariableAggregation::only_first_replica) {
    const Item item{views, std::span(&target, 1)};
    team->reduce(std::span(&item, 1), reduce_op_of(options.aggregation), name, {});
    return;
  }
  const std::size_t sources = team->communicator().rank() == 0 ? 1 : 0;
  const Item item{std::span(views).first(sources), std::span(&target, 1)};
  team->broadcast(std::span(&item, 1), 0, {.order = {}, .name = name});
}

void VariableState::require_aggregation(std::string_view call) const {
  if (options.aggregation != VariableAggregation::none) return;
  detail::throw_error(
      Code::invalid_argument,
      "{} to variable \"{}\": replica {} writes it, but its aggregation is none. Do one of: create it with "
      "aggregation sum, mean or only_first_replica; write it in cross-replica context, through merge_call; or use "
      "replica.update with a value that is equal on all replicas, such as the result of an all_reduce",
      call, options.name, thread_context().replica->replica_id_in_sync_group());
}

const Tensor& VariableState::aggregate_written(int copy, ConstTensorView value, std::string_view call_name,
                                               const std::source_location& where) {
  require_aggregation(call_name);
  const ThreadContext& context = thread_context();
  Tensor& target = scratch[static_cast<std::size_t>(copy)];  // no race: each replica uses its own element
  if (target.shape() != value.shape || target.dtype() != value.dtype || target.device() != value.device) {
    target = Tensor::uninitialized(value.dtype, value.shape, nullptr, value.device);
  }
  const TensorView output = target.view();
  const bool first_only = options.aggregation == VariableAggregation::only_first_replica;
  CommunicationOptions communication;
  communication.where = where;
  RendezvousCall call;
  call.kind = first_only ? CallKind::broadcast : CallKind::all_reduce;
  call.op = first_only ? ReduceOp::sum : reduce_op_of(options.aggregation);
  call.inputs = std::span(&value, 1);
  call.outputs = std::span(&output, 1);
  call.options = &communication;
  call.variable = options.name;
  call.user = {call_name, options.name};
  context.step->meet(context.replica->local_replica(), call);
  return target;
}

}  // namespace lockstep
