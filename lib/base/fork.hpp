// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Is this the process that made the object, or a child that fork() copied?

#pragma once

#include <cstdint>

namespace lockstep::detail {

/// How often fork() lies between this process and the first one that asked. Costs one load. Thread-safe.
[[nodiscard]] std::uint32_t fork_depth() noexcept;

}  // namespace lockstep::detail
