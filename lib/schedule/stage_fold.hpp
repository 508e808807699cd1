// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a stage of neighbouring groups adds: the canonical tree's nodes that each group knows, to those that all of them
// know together.

#pragma once

#include "schedule/canonical_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Inputs in id order: those of part 0, of part 1, and so on; `outputs` take them in runs.
struct StageFold {
  struct Output {
    Block block;
    std::size_t inputs;  ///< how many it takes
    std::vector<std::uint8_t> merges;
  };
  std::vector<std::vector<Block>> inputs;  ///< by part
  std::vector<Output> outputs;
};

/// Named as the part that comes as leaves: all do.
inline constexpr int every_part = -1;

/// The fold of groups that cover replicas [bounds[i], bounds[i+1]) of `replicas`. The part `leaves`, if any, comes as
/// single replicas and not as nodes.
[[nodiscard]] StageFold stage_fold(std::span<const int> bounds, int replicas, std::optional<int> leaves = std::nullopt);

}  // namespace lockstep::detail
