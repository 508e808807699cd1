// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Dissemination (Hensgen, Finkel, Manber 1988): in round k, every rank r of P ranks sends all information that it has
// to rank (r + 2^k) mod P. After ceil(log2 P) rounds, every rank has the information of all ranks. A rank sends one
// message per round.

#pragma once

namespace lockstep::detail {

/// Number of rounds until every rank has received from all `ranks` ranks, directly or through other ranks.
[[nodiscard]] constexpr int dissemination_rounds(int ranks) noexcept {
  int rounds = 0;
  for (int reach = 1; reach < ranks; reach *= 2) ++rounds;
  return rounds;
}

/// The rank to which `rank` sends in `round`.
[[nodiscard]] constexpr int dissemination_target(int rank, int round, int ranks) noexcept {
  return static_cast<int>((static_cast<long long>(rank) + (1LL << round)) % ranks);
}

/// The rank from which `rank` receives in `round`; a different rank in each round.
[[nodiscard]] constexpr int dissemination_source(int rank, int round, int ranks) noexcept {
  return static_cast<int>((static_cast<long long>(rank) + ranks - (1LL << round)) % ranks);
}

}  // namespace lockstep::detail
