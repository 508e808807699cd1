// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The current strategy of a thread, and how to change it.

#pragma once

#include <lockstep/base/export.hpp>

#include <memory>

namespace lockstep {

class ReplicaContext;
class Strategy;
struct ScopeRecord;

/// Returns the strategy whose scope, step, merge or update this thread is in; outside of all, the thread's default
/// strategy. Local. The reference is valid as long as that strategy lives; the default one lives as long as its thread.
[[nodiscard]] LOCKSTEP_API Strategy& get_strategy();

/// Returns the replica that this thread computes, null in cross-replica and update context. Outside of every scope,
/// step, merge and update: the default strategy's only replica. Local.
[[nodiscard]] LOCKSTEP_API ReplicaContext* get_replica_context();

/// Makes `strategy` current on this thread, in cross-replica context, as a scope does, but until the next call. With
/// null or the default strategy, no strategy is current.
/// Local. Throws Error(failed_precondition) inside a scope, step, merge_call or update.
/// The strategy must live until the next call; if it is destroyed on this thread before, no strategy is current.
LOCKSTEP_API void experimental_set_strategy(Strategy* strategy);

/// Makes a strategy current on this thread, in cross-replica context, until it is destroyed. Made by `Strategy::scope`,
/// which also enters it. Pinned.
/// Scopes of one strategy nest; closing the outer one first ends both. Two nesting errors are only logged, since the
/// destructor cannot throw: a scope that is closed inside a step, merge_call or update that began in it ends when that
/// returns, and a scope that is closed on another thread never ends by itself.
class LOCKSTEP_API [[nodiscard]] Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  friend class Strategy;
  explicit Scope(Strategy& strategy);

  std::unique_ptr<ScopeRecord> record_;
};

}  // namespace lockstep
