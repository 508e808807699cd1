// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace lockstep::detail {

/// Whether a debugger, or another tracer, is attached to a process of this host. False if that cannot be found out.
/// Reads a file of /proc.
[[nodiscard]] bool is_traced(std::int64_t process) noexcept;

}  // namespace lockstep::detail
