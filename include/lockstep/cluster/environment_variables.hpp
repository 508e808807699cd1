// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The names of the environment variables of the library, for programs that check a job's environment.

#pragma once

#include <lockstep/base/export.hpp>

#include <array>
#include <string_view>
#include <vector>

namespace lockstep {

/// How the names of the variables of lockstep's programs begin. The library does not read these variables.
inline constexpr std::array<std::string_view, 4> program_variable_prefixes{"LOCKSTEP_TRAIN_", "LOCKSTEP_PERF_",
                                                                           "LOCKSTEP_RUN_", "LOCKSTEP_LAUNCHER"};

/// The names of all environment variables that the library reads, such as "LOCKSTEP_TIMEOUT". Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::vector<std::string_view> environment_variables();

}  // namespace lockstep
