// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The names of the environment variables of the library, for programs that check a job's environment.

#pragma once

#include <lockstep/base/export.hpp>

#include <string_view>
#include <vector>

namespace lockstep {

/// The names of all environment variables that the library reads, such as "LOCKSTEP_TIMEOUT". Programs of lockstep have
/// variables of their own: LOCKSTEP_LAUNCHER, and those that begin with LOCKSTEP_TRAIN_, LOCKSTEP_PERF_ and
/// LOCKSTEP_RUN_. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::vector<std::string_view> environment_variables();

}  // namespace lockstep
