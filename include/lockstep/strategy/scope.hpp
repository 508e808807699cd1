// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The current strategy of a thread, and how to change it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/owned.hpp>

namespace lockstep {

class ReplicaContext;
class Strategy;
struct ScopeRecord;

/// Returns the strategy whose scope, step, merge or update this thread is in. Outside of these, returns the thread's
/// default strategy. Local. The reference is valid while the strategy exists. A default strategy exists until its
/// thread ends.
[[nodiscard]] LOCKSTEP_API Strategy& get_strategy();

/// Returns the context of the replica that this thread computes, and null in cross-replica and update context. Outside
/// of every scope, step, merge and update, returns the context of the default strategy's only replica. Local.
[[nodiscard]] LOCKSTEP_API ReplicaContext* get_replica_context();

/// Makes `strategy` current on this thread, in cross-replica context, until the next call of this function. If
/// `strategy` is null or a default strategy, no strategy is current afterwards.
/// Local. Throws Error(failed_precondition) inside a scope, step, merge_call or update.
/// `strategy` must exist until the next call. If `strategy` is destroyed on this thread, no strategy is current.
LOCKSTEP_API void experimental_set_strategy(Strategy* strategy);

/// While a Scope exists, its strategy is current on this thread, in cross-replica context. `Strategy::scope` creates a
/// Scope. Not copyable or movable.
/// Scopes of one strategy may nest; if the outer Scope is destroyed first, both scopes end. Two nesting errors are only
/// logged, because a destructor cannot throw. First, if a Scope is destroyed inside a step, merge_call or update that
/// began in the scope, the scope ends when the step, merge_call or update returns. Second, if a Scope is destroyed on a
/// thread that did not create the Scope, the scope never ends by itself.
class LOCKSTEP_API [[nodiscard]] Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  friend class Strategy;
  explicit Scope(Strategy& strategy);

  Owned<ScopeRecord> record_;
};

}  // namespace lockstep
