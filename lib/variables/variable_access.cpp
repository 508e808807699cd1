// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "variables/variable_access.hpp"

#include "base/check.hpp"
#include "collectives/internal_call.hpp"
#include "context/replica_team.hpp"
#include "device/host/host_elements.hpp"
#include "variables/variable_state.hpp"

#include <lockstep/device/gpu.hpp>

#include <fmt/format.h>

#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// Throws Error(invalid_argument) for options that a variable of `dtype` cannot have.
void check_options(const VariableOptions& options, DType dtype) {
  if (options.synchronization == VariableSynchronization::none) {
    detail::throw_error(
        Code::invalid_argument,
        "variable \"{}\": synchronization NONE means a variable that is not distributed, which strategies do "
        "not support; use on_write or on_read, or keep a Tensor per replica",
        options.name);
  }
  if (options.synchronization > VariableSynchronization::on_read) {
    detail::throw_error(Code::invalid_argument,
                        "variable \"{}\": synchronization {} is not one of auto, on_write, on_read", options.name,
                        static_cast<int>(options.synchronization));
  }
  if (options.aggregation > VariableAggregation::only_first_replica) {
    detail::throw_error(Code::invalid_argument,
                        "variable \"{}\": aggregation {} is not one of none, sum, mean, only_first_replica",
                        options.name, static_cast<int>(options.aggregation));
  }
  if (options.aggregation == VariableAggregation::sum && dtype == DType::boolean) {
    detail::throw_error(Code::invalid_argument,
                        "variable \"{}\": aggregation SUM is not supported for bool, which has no sum; use "
                        "only_first_replica, or i32 elements",
                        options.name);
  }
  if (options.aggregation == VariableAggregation::mean && !is_floating_point(dtype)) {
    detail::throw_error(
        Code::invalid_argument,
        "variable \"{}\": aggregation MEAN is not supported for {}, because a mean may be a fraction; use "
        "sum or only_first_replica, or f64 elements",
        options.name, to_string(dtype));
  }
}

/// `options` with the values that `automatic` and an unset `trainable` stand for.
VariableOptions resolved(VariableOptions options) {
  if (options.synchronization == VariableSynchronization::automatic) {
    options.synchronization = VariableSynchronization::on_write;
  }
  if (!options.trainable) options.trainable = options.synchronization != VariableSynchronization::on_read;
  return options;
}

/// The device of local replica `local`'s copy.
Device place_of(const ReplicaTeam& team, int local, const VariableOptions& options) {
  const Device device = team.devices()[static_cast<std::size_t>(local)];
  return options.in_host_memory && !detail::is_on_host(device) ? Device{} : device;
}

Tensor copy_on(Device device, ConstTensorView value) {
  Tensor result = Tensor::uninitialized(value.dtype, value.shape, nullptr, device);
  copy(result.view(), value);
  return result;
}

/// Broadcasts the initial value of rank 0 to all ranks, through host memory. If ranks create different variables, the
/// names of their broadcasts differ, and every rank gets Error(mismatch).
Tensor agreed_value(ReplicaTeam& team, const Tensor& initial, const VariableOptions& options) {
  const Device place = place_of(team, 0, options);
  if (team.communicator().size() == 1) return copy_on(place, initial.view());
  const detail::HostElements elements(initial.view());
  const bool is_wanted_here = detail::is_on_host(place);
  Tensor agreed = Tensor::uninitialized(initial.dtype(), initial.shape(), nullptr, is_wanted_here ? place : Device{});
  const ConstTensorView input = elements.view();
  const TensorView output = agreed.view();
  const std::size_t sources = team.communicator().rank() == 0 ? 1 : 0;
  const Item item{std::span(&input, 1).first(sources), std::span(&output, 1)};
  // errors show only the first characters of this name, so options that are not the defaults come before the name
  const bool is_plain = options.synchronization == VariableSynchronization::on_write &&
                        options.aggregation == VariableAggregation::none && !options.in_host_memory;
  const std::string kind =
      is_plain ? ""
               : fmt::format("({}, {}{}) ", to_string(options.synchronization), to_string(options.aggregation),
                             options.in_host_memory ? ", in host memory" : "");
  const std::string name = fmt::format("the creation of the {}variable \"{}\"", kind, canonical_name(options.name));
  team.broadcast(std::span(&item, 1), 0, detail::internal_call(name));
  return is_wanted_here ? agreed : copy_on(place, agreed.view());
}

}  // namespace

Variable VariableAccess::make(std::shared_ptr<ReplicaTeam> team, const Tensor& initial,
                              const VariableOptions& options) {
  detail::propagate(team->communicator(), [&] { check_options(options, initial.dtype()); });
  auto state = std::make_shared<VariableState>();
  state->options = resolved(options);
  // propagate, because another rank may already have created the variable when this rank fails
  detail::propagate(team->communicator(), [&] {
    state->copies.push_back(agreed_value(*team, initial, state->options));
    for (int i = 1; i < team->local_replicas(); ++i) {
      const Device place = place_of(*team, i, state->options);
      state->copies.push_back(copy_on(place, std::as_const(state->copies.front()).view()));
    }
  });
  state->scratch.resize(state->copies.size());
  state->team = std::move(team);
  return Variable(std::move(state));
}

const ReplicaTeam& VariableAccess::team(const Variable& variable) noexcept { return *variable.state_->team; }

}  // namespace lockstep
