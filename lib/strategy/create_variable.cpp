// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How a strategy creates a variable, in cross-replica context and in a step.

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/step.hpp"
#include "context/thread_context.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <fmt/format.h>

#include <string>

namespace lockstep {
namespace {

/// The arguments of one replica's call in a step; the caller owns the objects.
struct VariableRequest {
  const VariableInitializer* initial;
  const VariableOptions* options;
  Device device;
};

std::string text_of(const VariableOptions& options) {
  const char* const trainable = !options.trainable ? "default" : *options.trainable ? "true" : "false";
  return fmt::format("synchronization {}, aggregation {}, trainable {}{}", to_string(options.synchronization),
                     to_string(options.aggregation), trainable, options.in_host_memory ? ", in host memory" : "");
}

/// Throws unless the local replicas request the same variable. Initial values from functions are not compared, because
/// only the function of the first replica is called.
void check_requests_agree(const PerReplica<VariableRequest>& requests) {
  const VariableRequest& first = requests.component(0);
  for (int i = 1; i < requests.size(); ++i) {
    const VariableRequest& other = requests.component(i);
    const int id = requests.first_replica() + i;
    if (canonical_name(other.options->name) != canonical_name(first.options->name)) {
      detail::throw_error(Code::failed_precondition,
                          "variable: replica {} ({}) creates \"{}\", but replica {} ({}) creates \"{}\"; all replicas "
                          "must create the same variables in the same order",
                          id, to_string(other.device), other.options->name, requests.first_replica(),
                          to_string(first.device), first.options->name);
    }
    if (text_of(*other.options) != text_of(*first.options)) {
      detail::throw_error(Code::mismatch,
                          "variable \"{}\": replica {} gives {}, but replica {} gives {}; all replicas must give the "
                          "same options",
                          first.options->name, id, text_of(*other.options), requests.first_replica(),
                          text_of(*first.options));
    }
    const Tensor* const here = other.initial->value;
    const Tensor* const there = first.initial->value;
    if (here != nullptr && there != nullptr && (here->dtype() != there->dtype() || here->shape() != there->shape())) {
      detail::throw_error(Code::mismatch,
                          "variable \"{}\": the initial value is {}{} on replica {} but {}{} on replica {}; they must "
                          "have the same dtype and shape",
                          first.options->name, to_string(here->dtype()), to_string(here->shape()), id,
                          to_string(there->dtype()), to_string(there->shape()), requests.first_replica());
    }
  }
}

}  // namespace

VariableOptions Strategy::with_synchronization(VariableOptions options, VariableSynchronization synchronization) const {
  const VariableSynchronization given = options.synchronization;
  const bool other_kind = given != synchronization &&
                          (given == VariableSynchronization::on_write || given == VariableSynchronization::on_read);
  if (other_kind) {
    const bool reads = given == VariableSynchronization::on_read;
    const Error error(Code::invalid_argument,
                      fmt::format("variable \"{}\": synchronization {} makes a {}; use {}, or variable(Tensor, "
                                  "options), which makes either kind",
                                  options.name, to_string(given), reads ? "SyncOnReadVariable" : "MirroredVariable",
                                  reads ? "sync_on_read_variable<T>" : "variable<T>"));
    if (thread_context().replica != nullptr) throw Error(error);  // `run` propagates it
    detail::propagate(communicator(), [&] { throw Error(error); });
  }
  if (given == VariableSynchronization::automatic) options.synchronization = synchronization;
  return options;
}

Variable Strategy::create_variable(const VariableInitializer& initial, const VariableOptions& options,
                                   std::optional<DType> dtype) {
  const ThreadContext& context = thread_context();
  detail::require_no_other_strategy(*team_, "variable \"" + options.name + "\"");
  if (context.replica != nullptr) {
    StepAccess::name_merge_call(*context.replica, {"the creation", options.name});
    return context.replica->merge_call(
        [dtype](Strategy& strategy, const PerReplica<VariableRequest>& requests) {
          check_requests_agree(requests);
          const VariableRequest& first = requests.component(0);
          return strategy.create_variable(*first.initial, *first.options, dtype);
        },
        VariableRequest{&initial, &options, context.replica->devices().front()});
  }
  team_->forget_propagated();
  // propagate, because the other ranks wait for this rank
  const Tensor value = detail::propagate(communicator(), [&] {
    Tensor made = initial();
    if (dtype && made.dtype() != *dtype) {
      detail::throw_error(Code::invalid_argument,
                          "variable \"{}\": the initial value is {}, but the variable's elements are {}; pass an "
                          "initial value of {}, or create a variable of {}",
                          options.name, to_string(made.dtype()), to_string(*dtype), to_string(*dtype),
                          to_string(made.dtype()));
    }
    return made;
  });
  return VariableAccess::make(team_, value, options);
}

Variable Strategy::variable(const Tensor& initial, const VariableOptions& options) {
  return create_variable({.value = &initial}, options, std::nullopt);
}

}  // namespace lockstep
