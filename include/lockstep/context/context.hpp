// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where this thread is: outside everything (the default strategy), in cross-replica context (a scope, a merge, an
// update), or in replica context (the step function). Kept per thread: a thread that the user starts is outside
// everything, even if its parent is inside a scope.

#pragma once

#include <lockstep/base/export.hpp>

namespace lockstep {

class ReplicaContext;
class Strategy;

/// The strategy whose scope, step, merge or update this thread is in; the thread's default strategy outside of all.
/// Local. The reference is good as long as that strategy lives; the default one lives as long as its thread.
[[nodiscard]] LOCKSTEP_API Strategy& get_strategy();

/// Makes `strategy` current on this thread, in cross-replica context, as a scope does, but until the next call; null or
/// the default strategy: none. Local. Throws Error(failed_precondition) inside a scope, step, merge_call or update.
/// The strategy must outlive that; destroyed on this thread, it makes place by itself.
LOCKSTEP_API void experimental_set_strategy(Strategy* strategy);

/// Whether get_strategy() is other than the default strategy. Local.
[[nodiscard]] LOCKSTEP_API bool has_strategy() noexcept;

/// The replica that this thread computes, null in cross-replica and update context. Outside everything: the default
/// strategy's only replica. Local.
[[nodiscard]] LOCKSTEP_API ReplicaContext* get_replica_context();

/// True in a scope, in a function given to `merge_call` or `update`; false in a step function and outside everything.
/// Local.
[[nodiscard]] LOCKSTEP_API bool in_cross_replica_context() noexcept;

}  // namespace lockstep
