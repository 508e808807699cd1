// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The context of this thread: none (the default strategy), cross-replica context (a scope, a merge, an update), or
// replica context (the step function). A thread that the user starts has none, even if its parent is inside a scope.

#pragma once

#include <lockstep/base/export.hpp>

namespace lockstep {

/// Whether get_strategy() returns a strategy other than the default one. Local.
[[nodiscard]] LOCKSTEP_API bool has_strategy() noexcept;

/// True in a scope and in a function passed to `merge_call` or `update`; false in a step function and outside of all
/// these. Local.
[[nodiscard]] LOCKSTEP_API bool in_cross_replica_context() noexcept;

}  // namespace lockstep
