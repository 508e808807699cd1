// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The messages of the agreement: recursive multiplying with radix 4. Groups of level 0 are the members; round j joins
// neighbouring groups of level j, four as a rule, to one group of level j + 1: every member gets one message from every
// other of these groups. So a member knows of its whole group after each round, and the members of a group are
// consecutive. One group that is left over joins the four before it, so that groups of a level differ little in size;
// where they do, members of the smaller one send to two or three of the larger one.
//
// About log4 n rounds; about 3 messages that are sent and received in each. Who sends to whom depends on n alone.
// Ruefenacht, Bull, Booth: Generalisation of recursive doubling for AllReduce (2017).

#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::detail {

/// The work of one member in one round.
struct AgreementRound {
  std::vector<int> bounds;   ///< the groups that are joined: group i has members [bounds[i], bounds[i+1])
  int group = 0;             ///< index of this member's group
  std::vector<int> sources;  ///< by group, the member that sends to this one; this member itself for its own group
  std::vector<int> targets;  ///< the members to which this one sends
};

/// The rounds of all members. A round in which a member has no peers has one group. The last round joins all members;
/// there is none if there is one member.
class AgreementPattern {
 public:
  explicit AgreementPattern(int members);

  [[nodiscard]] std::vector<AgreementRound> rounds(int self) const;
  [[nodiscard]] std::size_t round_count() const noexcept { return levels_.size() - 1; }
  /// The groups that round `round` joins: the first member of each, and the number of members.
  [[nodiscard]] const std::vector<int>& groups(std::size_t round) const { return levels_[round]; }

 private:
  std::vector<std::vector<int>> levels_;  ///< groups of each level; one in the last
};

}  // namespace lockstep::detail
