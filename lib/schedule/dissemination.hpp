// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Dissemination (Hensgen, Finkel, Manber 1988): in round k every rank tells rank + 2^k what it knows, so that after
// ceil(log2 P) rounds everybody knows of everybody. One message per rank and round.

#pragma once

namespace lockstep::detail {

/// Rounds until every rank has heard of all `ranks`.
[[nodiscard]] constexpr int dissemination_rounds(int ranks) noexcept {
  int rounds = 0;
  for (int reach = 1; reach < ranks; reach *= 2) ++rounds;
  return rounds;
}

/// Whom `rank` tells in `round`.
[[nodiscard]] constexpr int dissemination_target(int rank, int round, int ranks) noexcept {
  return static_cast<int>((static_cast<long long>(rank) + (1LL << round)) % ranks);
}

/// From whom `rank` hears in `round`; another rank in each round.
[[nodiscard]] constexpr int dissemination_source(int rank, int round, int ranks) noexcept {
  return static_cast<int>((static_cast<long long>(rank) + ranks - (1LL << round)) % ranks);
}

}  // namespace lockstep::detail
