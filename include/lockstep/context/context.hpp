// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where this thread is: outside everything (the default strategy), in cross-replica context (a scope, a merge, an
// update), or in replica context (the step function). Kept per thread: a thread that the user starts is outside
// everything, even if its parent is inside a scope.

#pragma once

#include <lockstep/base/export.hpp>

namespace lockstep {

/// Whether get_strategy() returns a strategy other than the default one. Local.
[[nodiscard]] LOCKSTEP_API bool has_strategy() noexcept;

/// True in a scope, in a function given to `merge_call` or `update`; false in a step function and outside everything.
/// Local.
[[nodiscard]] LOCKSTEP_API bool in_cross_replica_context() noexcept;

}  // namespace lockstep
