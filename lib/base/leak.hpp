// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace lockstep::detail {

/// Leaks `memory`, because it may be accessed until the process ends: the memory is never freed, and leak checkers find
/// it reachable.
void leak(const void* memory) noexcept;

}  // namespace lockstep::detail
