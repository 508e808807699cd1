// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Detects whether this process created an object, or is a child process that inherited a copy of the object by fork().

#pragma once

#include <cstdint>

namespace lockstep::detail {

/// The number of fork() calls between this process and the first process that called this function. Costs one load.
/// Thread-safe.
[[nodiscard]] std::uint32_t fork_depth() noexcept;

}  // namespace lockstep::detail
