// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tells the process that made an object from a child process that fork() copied it into.

#pragma once

#include <cstdint>

namespace lockstep::detail {

/// The number of fork() calls between this process and the first process that asked. Costs one load. Thread-safe.
[[nodiscard]] std::uint32_t fork_depth() noexcept;

}  // namespace lockstep::detail
