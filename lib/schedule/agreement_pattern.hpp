// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The messages of the agreement: recursive multiplying with radix 4. The groups of level 0 are the single members.
// Round j joins neighbouring groups of level j, usually four, to one group of level j + 1: every member gets one
// message from each of the other groups that are joined to its group. After round j, a member has information from all
// members of its group of level j + 1. The members of a group are consecutive. If the last group of a level would be
// alone on the next level, it joins the previous four groups instead, so that the groups of a level differ little in
// size. If groups of different sizes are joined, some members of a smaller group send to two or three members of a
// larger group.
//
// For n members, there are about log4 n rounds, and a member sends and receives about 3 messages per round. Which
// members send to which members depends on n only. Ruefenacht, Bull, Booth: Generalisation of recursive doubling for
// AllReduce (2017).

#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::detail {

/// The work of one member in one round.
struct AgreementRound {
  std::vector<int> bounds;   ///< the joined groups: group i has members [bounds[i], bounds[i+1])
  int group = 0;             ///< index of this member's group
  std::vector<int> sources;  ///< by group, the member that sends to this member; in its own group, this member itself
  std::vector<int> targets;  ///< members to which this member sends
};

/// The rounds of all members. If a member has no peers in a round, its AgreementRound has one group. The last round
/// joins all members. If there is only one member, there are no rounds.
class AgreementPattern {
 public:
  explicit AgreementPattern(int members);

  [[nodiscard]] std::vector<AgreementRound> rounds(int self) const;
  [[nodiscard]] std::size_t round_count() const noexcept { return levels_.size() - 1; }
  /// The groups that round `round` joins: the first member of each group, then the number of members.
  [[nodiscard]] const std::vector<int>& groups(std::size_t round) const { return levels_[round]; }

 private:
  std::vector<std::vector<int>> levels_;  ///< groups of each level; the last level has one group
};

}  // namespace lockstep::detail
