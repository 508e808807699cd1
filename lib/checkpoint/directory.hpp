// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The directory of a run's checkpoints. Each checkpoint is a folder "step-000000000120" with state.safetensors and
// manifest.json. Folders that are being written or removed have other names, which are ignored when checkpoints are
// listed.

#pragma once

#include "checkpoint/file.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::detail {

inline constexpr const char* state_name = "state.safetensors";
inline constexpr const char* manifest_name = "manifest.json";

[[nodiscard]] Path step_path(const Path& directory, std::int64_t step);
/// Folder in which a checkpoint is written before it is renamed. `nonce` distinguishes it from folders that earlier
/// jobs left behind.
[[nodiscard]] Path unfinished_path(const Path& directory, std::int64_t step, std::uint64_t nonce);

/// Steps of the complete checkpoints, ascending; none if the directory does not exist. Throws as throw_system_error.
[[nodiscard]] std::vector<std::int64_t> steps_in(const Path& directory);

/// Renames the finished folder `from` to the checkpoint of `step`, and syncs the directory. Then removes all but this
/// checkpoint and the `keep` - 1 others with the highest steps (0: removes none), and the unfinished folders of earlier
/// jobs.
void commit(const Path& directory, const Path& from, std::int64_t step, int keep);

}  // namespace lockstep::detail
