// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "context/thread_context.hpp"

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/step.hpp"

#include <lockstep/context/context.hpp>
#include <lockstep/context/replica_context.hpp>

namespace lockstep {
namespace {

struct ThreadState {
  ThreadContext context;
  ThreadDefault fallback;
};

thread_local constinit ThreadState state;

}  // namespace

ThreadContext& thread_context() noexcept { return state.context; }

ThreadDefault& thread_default() {
  if (!state.fallback.team) state.fallback.team = ReplicaTeam::make_default();
  return state.fallback;
}

Strategy& current_strategy() {
  if (state.context.mode != Mode::outside) return *state.context.strategy;
  LOCKSTEP_CHECK(state.fallback.strategy != nullptr);  // every caller has called get_replica_context, which sets it
  return *state.fallback.strategy;
}

void leave_ended_scopes() noexcept {
  ThreadContext& context = state.context;
  // a scope is not left while a step, merge or update that began in the scope is running
  while (context.mode == Mode::cross_replica && context.scope != nullptr && context.scope->ended &&
         context.step == context.scope->replaced.step) {
    const std::unique_ptr<ScopeRecord> scope(context.scope);  // the Scope is closed; no context refers to the record
    context = scope->replaced;
  }
}

bool has_strategy() noexcept {
  const ThreadContext& context = state.context;
  return context.mode != Mode::outside && !context.team->is_default();
}

bool in_cross_replica_context() noexcept {
  return state.context.mode == Mode::cross_replica || state.context.mode == Mode::update;
}

namespace detail {

void require_no_other_strategy(const ReplicaTeam& team, std::string_view call) {
  const ThreadContext& context = state.context;
  if (context.mode != Mode::outside && context.team != &team) {
    throw_error(Code::failed_precondition,
                "{}: the call is for {}, but this thread is inside a {} of {}; strategies cannot be mixed: make the "
                "call outside that {}",
                call, team.title(), context.step != nullptr ? "step" : "scope", context.team->title(),
                context.step != nullptr ? "step" : "scope");
  }
}

void require_cross_replica(const ReplicaTeam& team, std::string_view call) {
  const ThreadContext& context = state.context;
  require_no_other_strategy(team, call);
  if (context.replica != nullptr) {
    throw_error(Code::failed_precondition,
                "{}: called in replica context (replica {}), but it works on the values of all replicas; call it "
                "outside the step function, or inside merge_call",
                call, context.replica->replica_id_in_sync_group());
  }
}

}  // namespace detail
}  // namespace lockstep
