// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The context of a thread. A thread is in cross-replica context (in a scope, or in a function that was passed to
// merge_call or update), in replica context (in a step function), or in no context; in no context, the default strategy
// applies. A thread that the user starts is in no context, even if the thread that started it is in a scope.

#pragma once

#include <lockstep/base/export.hpp>

namespace lockstep {

/// Whether, on this thread, get_strategy() returns a strategy other than the default strategy. Local.
[[nodiscard]] LOCKSTEP_API bool has_strategy() noexcept;

/// True in a scope, and in a function that was passed to `merge_call` or `update`. False in a step function, and
/// outside of every scope. Local.
[[nodiscard]] LOCKSTEP_API bool in_cross_replica_context() noexcept;

}  // namespace lockstep
