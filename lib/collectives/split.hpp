// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Who comes together when a communicator is split.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// What a rank says: with whom it wants to be, and where among them.
struct SplitClaim {
  std::int32_t color = -1;  ///< negative: with nobody
  std::int32_t key = 0;
};
static_assert(sizeof(SplitClaim) == 2 * sizeof(std::int32_t), "it travels as two numbers");

/// The ranks of the same color as `rank`, itself included, by key, among equal keys by rank; none when that is
/// negative.
[[nodiscard]] std::vector<int> split_members(std::span<const SplitClaim> claims_by_rank, int rank);

}  // namespace lockstep::detail
