// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/strategy_extended.hpp>

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <algorithm>
#include <utility>

namespace lockstep {

std::span<const Device> StrategyExtended::worker_devices() const {
  if (strategy_.team_->is_default()) {
    detail::throw_error(
        Code::failed_precondition,
        "worker_devices, parameter_devices: the default strategy has no devices of its own; create a strategy");
  }
  return strategy_.team_->devices();
}

std::span<const Device> StrategyExtended::parameter_devices() const { return worker_devices(); }

bool StrategyExtended::variable_created_in_scope(const Variable& variable) const {
  const ReplicaTeam& owner = VariableAccess::team(variable);
  return &owner == strategy_.team_.get() || (owner.is_default() && strategy_.team_->is_default());
}

ColocateScope::ColocateScope(std::vector<Device> devices, std::optional<Variable> variable)
    : devices_(std::move(devices)), variable_(std::move(variable)) {}
ColocateScope::~ColocateScope() = default;

std::span<const Device> ColocateScope::devices() const noexcept { return devices_; }

const Variable& ColocateScope::variable() const {
  if (!variable_) {
    detail::throw_error(Code::failed_precondition,
                        "variable: the ColocateScope was made from devices, not from a variable; use devices()");
  }
  return *variable_;
}

void StrategyExtended::require_scope_of_colocation() const {
  const ReplicaTeam& team = *strategy_.team_;
  detail::require_no_other_strategy(team, "colocate_vars_with");
  if (team.is_default() || thread_context().mode != Mode::outside) return;
  detail::throw_error(Code::failed_precondition,
                      "colocate_vars_with: called outside of the scope of {}; open strategy.scope() around it",
                      team.title());
}

ColocateScope StrategyExtended::colocate_vars_with(std::span<const Device> devices) const {
  require_scope_of_colocation();
  static_cast<void>(copies_on("colocate_vars_with", devices));
  return {std::vector<Device>(devices.begin(), devices.end()), std::nullopt};
}

ColocateScope StrategyExtended::colocate_vars_with(const Variable& variable) const {
  const ReplicaTeam& team = *strategy_.team_;
  detail::require_no_other_strategy(team, "colocate_vars_with");
  if (!variable_created_in_scope(variable)) {
    detail::throw_error(
        Code::invalid_argument,
        "colocate_vars_with: variable \"{}\" was created by {}, not by {}; pass a variable that was created by this "
        "strategy",
        variable.name(), VariableAccess::team(variable).title(), team.title());
  }
  require_scope_of_colocation();
  std::vector<Device> devices;
  for (int i = 0; i < variable.component_count(); ++i) devices.push_back(variable.component(i).device());
  return {std::move(devices), variable};
}

std::span<const Device> StrategyExtended::non_slot_devices(std::span<const Variable> var_list) const {
  if (strategy_.team_->is_default() && var_list.empty()) {
    detail::throw_error(Code::invalid_argument,
                        "non_slot_devices: var_list is empty, but the default strategy places non-slot variables with "
                        "var_list; pass the variables that are optimized, or create a strategy");
  }
  return strategy_.team_->devices();
}

ReplicaContext* StrategyExtended::replica_of_update(const Variable& variable) const {
  const ThreadContext& context = thread_context();
  const ReplicaTeam& team = *strategy_.team_;
  const bool in_step = context.mode == Mode::replica && context.team == &team;
  if (!in_step) detail::require_cross_replica(team, "update");
  const ReplicaTeam& owner = VariableAccess::team(variable);
  if (&owner != &team && !owner.is_default()) {
    detail::throw_error(Code::invalid_argument,
                        "update: variable \"{}\" was created by {}, not by {}; update it through its own strategy",
                        variable.name(), owner.title(), team.title());
  }
  return in_step ? context.replica : nullptr;
}

std::vector<int> StrategyExtended::copies_on(std::string_view call, std::span<const Device> devices) const {
  if (devices.empty()) {
    detail::throw_error(Code::invalid_argument, "{}: the list of devices is empty; pass the result of non_slot_devices",
                        call);
  }
  const std::vector<Device>& own = strategy_.team_->devices();
  std::vector<int> copies;
  for (const Device& device : devices) {
    const auto found = std::find(own.begin(), own.end(), device);
    if (found == own.end()) {
      detail::throw_error(Code::invalid_argument,
                          "{}: device {} is not one of this rank's devices of {}; pass the result of non_slot_devices",
                          call, to_string(device), strategy_.team_->title());
    }
    copies.push_back(static_cast<int>(found - own.begin()));
  }
  return copies;
}

namespace detail {

UpdateScope::UpdateScope(Strategy& strategy, int local)
    : gpu_(strategy.team_->devices()[static_cast<std::size_t>(local)]) {
  ThreadContext& context = thread_context();
  context.mode = Mode::update;
  context.component = local;
  context.strategy = &strategy;
  context.team = strategy.team_.get();
}

}  // namespace detail
}  // namespace lockstep
