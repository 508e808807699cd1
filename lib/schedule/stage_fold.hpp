// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The additions of a stage that joins neighbouring groups: from the canonical tree's nodes that each group holds to
// those that all of them cover together.

#pragma once

#include "schedule/canonical_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A fold. The inputs are in id order: those of group 0, of group 1, and so on; the outputs consume them in consecutive
/// runs.
struct StageFold {
  struct Output {
    Block block;
    std::size_t inputs;  ///< number of inputs of this output
    std::vector<std::uint8_t> merges;
  };
  std::vector<std::vector<Block>> inputs;  ///< by group
  std::vector<Output> outputs;
};

/// The value of `leaves` for which all groups come as leaves.
inline constexpr int every_group = -1;

/// The fold of groups that cover replicas [bounds[i], bounds[i+1]) of `replicas`. The inputs of group `leaves`, if
/// given, are single replicas instead of nodes.
[[nodiscard]] StageFold stage_fold(std::span<const int> bounds, int replicas, std::optional<int> leaves = std::nullopt);

}  // namespace lockstep::detail
