// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/strategy_extended.hpp>

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/strategy/strategy.hpp>

namespace lockstep {

std::span<const Device> StrategyExtended::worker_devices() const {
  if (strategy_.team_->is_default()) {
    detail::throw_error(
        Code::failed_precondition,
        "worker_devices, parameter_devices: the default strategy has no devices of its own; make a strategy");
  }
  return strategy_.team_->devices();
}

std::span<const Device> StrategyExtended::parameter_devices() const { return worker_devices(); }

bool StrategyExtended::variable_created_in_scope(const Variable& variable) const {
  return &VariableAccess::team(variable) == strategy_.team_.get();
}

void StrategyExtended::check_update(const Variable& variable) const {
  detail::require_cross_replica(*strategy_.team_, "update");
  if (!variable_created_in_scope(variable)) {
    detail::throw_error(Code::invalid_argument,
                        "update: variable \"{}\" was made by {}, not by {}; update it through its own strategy",
                        variable.name(), VariableAccess::team(variable).name(), strategy_.team_->name());
  }
}

namespace detail {

struct UpdateScope::Saved {
  ThreadContext context;
};

UpdateScope::UpdateScope(Strategy& strategy, int local) : saved_(new Saved{thread_context()}) {
  ThreadContext& context = thread_context();
  context.mode = Mode::update;
  context.component = local;
  context.strategy = &strategy;
  context.team = strategy.team_.get();
}

UpdateScope::~UpdateScope() { thread_context() = saved_->context; }

}  // namespace detail
}  // namespace lockstep
