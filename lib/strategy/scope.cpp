// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/scope.hpp>

#include "base/check.hpp"
#include "base/leak.hpp"
#include "base/log.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "strategy/strategy_access.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <memory>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

/// The strategy outside of any scope: one replica, no devices of its own, no mirrored variables.
class DefaultStrategy final : public Strategy {
 public:
  explicit DefaultStrategy(std::shared_ptr<ReplicaTeam> team)
      : Strategy(StrategyOfTheLibrary{.team = std::move(team)}) {}
};

/// Whether `record` is a scope that this thread is in.
bool is_open(const ScopeRecord& record) noexcept {
  for (const ScopeRecord* open = thread_context().scope; open != nullptr; open = open->replaced.scope) {
    if (open == &record) return true;
  }
  return false;
}

/// Whether no step, merge or update is running inside the open scope `record`.
bool can_be_closed(const ScopeRecord& record) noexcept {
  const ThreadContext& context = thread_context();
  return context.mode == Mode::cross_replica && context.step == record.replaced.step;
}

}  // namespace

Scope::Scope(Strategy& strategy) {
  ThreadContext& context = thread_context();
  const ReplicaTeam& team = *strategy.team_;
  if (team.is_default() && context.mode != Mode::outside && context.team != &team) {
    detail::throw_error(Code::failed_precondition,
                        "scope: the default strategy's scope must not nest in the scope of {}; leave that scope first",
                        context.team->title());
  }
  detail::require_cross_replica(team, "scope");
  record_ = std::make_unique<ScopeRecord>(ScopeRecord{context, std::this_thread::get_id()});
  context.mode = Mode::cross_replica;
  context.component = 0;
  context.strategy = &strategy;
  context.team = strategy.team_.get();
  context.scope = record_.get();
}

Scope::~Scope() {
  if (record_->thread != std::this_thread::get_id()) {
    detail::log_warning(
        "scope: a scope was closed on a thread that did not open it, so it stays open; close each scope on the thread "
        "that opened it");
    detail::leak(record_.release());  // the context of the opening thread still points to the record
    return;
  }
  if (!is_open(*record_)) return;  // already ended, together with an outer scope or with the merge that contains it
  if (!can_be_closed(*record_)) {
    detail::log_warning(
        "scope: nesting error: a scope of {} was closed inside a step, merge_call or update that was started within "
        "the scope; it is closed when that call returns. Close scopes and calls in the reverse order of opening",
        thread_context().team->title());
    record_.release()->ended = true;
    return;
  }
  for (ScopeRecord* open = thread_context().scope; open != record_.get();) {
    ScopeRecord* const outer = open->replaced.scope;
    if (open->ended) delete open;  // the Scope of this record is already destroyed
    open = outer;
  }
  thread_context() = record_->replaced;
  leave_ended_scopes();
}

Strategy& get_strategy() {
  if (thread_context().mode == Mode::outside) {
    ThreadDefault& fallback = thread_default();
    if (!fallback.strategy) fallback.strategy = std::make_shared<DefaultStrategy>(fallback.team);
  }
  return current_strategy();
}

ReplicaContext* get_replica_context() {
  const ThreadContext& context = thread_context();
  if (context.mode == Mode::outside) return &StrategyAccess::team(get_strategy()).first_replica();
  return context.mode == Mode::replica ? context.replica : nullptr;
}

void experimental_set_strategy(Strategy* strategy) {
  ThreadContext& context = thread_context();
  if (context.scope != nullptr || context.step != nullptr || context.mode == Mode::update) {
    detail::throw_error(Code::failed_precondition,
                        "experimental_set_strategy: called inside a {} of {}, the end of which would undo the change; "
                        "call it outside every scope, step, merge_call and update",
                        context.step != nullptr        ? "step"
                        : context.mode == Mode::update ? "update"
                                                       : "scope",
                        context.team->title());
  }
  if (strategy == nullptr || strategy->team_->is_default()) {
    context = {};
    return;
  }
  context.mode = Mode::cross_replica;
  context.component = 0;
  context.strategy = strategy;
  context.team = strategy->team_.get();
}

}  // namespace lockstep
