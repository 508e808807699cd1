// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The directory of a run's checkpoints: each is a folder "step-000000000120" that holds state.safetensors and
// manifest.json. What is being written or removed has other names, which nobody reads.

#pragma once

#include "checkpoint/file.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::detail {

inline constexpr const char* state_name = "state.safetensors";
inline constexpr const char* manifest_name = "manifest.json";

[[nodiscard]] Path step_path(const Path& directory, std::int64_t step);
/// Where a checkpoint is written before it has its name; `nonce` keeps it apart from what an earlier job has left.
[[nodiscard]] Path unfinished_path(const Path& directory, std::int64_t step, std::uint64_t nonce);

/// Steps of the complete checkpoints, in order; none where there is no such directory. Throws as throw_system_error.
[[nodiscard]] std::vector<std::int64_t> steps_in(const Path& directory);

/// Gives the finished folder `from` its name, and makes that last. Then removes the oldest checkpoints but `keep` (0:
/// none), never this one, and what earlier jobs left behind.
void commit(const Path& directory, const Path& from, std::int64_t step, int keep);

}  // namespace lockstep::detail
