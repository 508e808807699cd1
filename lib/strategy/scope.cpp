// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/scope.hpp>

#include "base/check.hpp"
#include "base/log.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <thread>

namespace lockstep {

struct Scope::Saved {
  ThreadContext context;  // what the scope replaced
  std::thread::id thread;
};

Scope::Scope(Strategy& strategy) : saved_(new Saved{thread_context(), std::this_thread::get_id()}) {
  ThreadContext& context = thread_context();
  const ReplicaTeam& team = *strategy.team_;
  if (team.is_default() && context.mode != Mode::outside && context.team != &team) {
    detail::throw_error(Code::failed_precondition,
                        "scope: the default strategy's scope must not nest in the scope of {}", context.team->name());
  }
  detail::require_cross_replica(team, "scope");
  context.mode = Mode::cross_replica;
  context.component = 0;
  context.strategy = &strategy;
  context.team = strategy.team_.get();
  context.scope = this;
}

Scope::~Scope() {
  if (saved_->thread != std::this_thread::get_id()) {
    detail::log_warning(
        "a scope is destroyed on another thread than the one that made it, whose context stays as it is");
    return;
  }
  // Closing an outer scope ends the inner ones too; they find themselves gone.
  for (auto scope = static_cast<const Scope*>(thread_context().scope); scope != nullptr;
       scope = static_cast<const Scope*>(scope->saved_->context.scope)) {
    if (scope == this) {
      thread_context() = saved_->context;
      return;
    }
  }
}

}  // namespace lockstep
