// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/carried_data.hpp"

#include "schedule/agreement_pattern.hpp"
#include "schedule/canonical_tree.hpp"

#include <algorithm>
#include <iterator>

namespace lockstep::detail {

CarrySteps::CarrySteps(const ReplicaLayout& layout, std::span<const int> node_leaders, int rank)
    : layout_(layout), rank_(rank) {
  std::vector<int> first_ranks;  // first rank of each node, then the number of ranks
  for (int other = 0; other < layout_.ranks(); ++other) {
    const int leader = node_leaders[static_cast<std::size_t>(other)];
    if (leader == other) first_ranks.push_back(other);
    if (leader != first_ranks.back()) return;
  }
  const auto nodes = static_cast<int>(first_ranks.size());
  const AgreementPattern pattern(nodes);
  first_ranks.push_back(layout_.ranks());
  if (nodes < 2) return;
  are_possible_ = true;
  const auto ranks_of = [&](int node) { return first_ranks[static_cast<std::size_t>(node)]; };
  for (int other = 0; other < layout_.ranks(); ++other) note_blocks(other, other + 1);
  for (int node = 0; node < nodes; ++node)
    most_ranks_ = std::max(most_ranks_, static_cast<std::size_t>(ranks_of(node + 1) - ranks_of(node)));
  for (std::size_t round = 0; round <= pattern.round_count(); ++round) {
    const std::vector<int>& groups = pattern.groups(round);
    for (std::size_t group = 0; group + 1 < groups.size(); ++group)
      note_blocks(ranks_of(groups[group]), ranks_of(groups[group + 1]));
  }
  // approximately: in each round the numbers of groups differ between nodes by one or two
  for (const int node : {0, nodes - 1}) {
    std::size_t messages = 0;
    for (const AgreementRound& round : pattern.rounds(node)) messages += round.sources.size() - 1;
    messages_ = std::max(messages_, messages);
  }
  // the groups that this rank joins, by step
  const auto own = std::find(first_ranks.begin(), first_ranks.end() - 1, rank_);
  if (own == first_ranks.end() - 1) return;
  const auto node = static_cast<int>(own - first_ranks.begin());
  bounds_.emplace_back();
  for (int member = ranks_of(node); member <= ranks_of(node + 1); ++member) bounds_.front().push_back(member);
  for (const AgreementRound& round : pattern.rounds(node))
    std::transform(round.bounds.begin(), round.bounds.end(), std::back_inserter(bounds_.emplace_back()), ranks_of);
}

CarrySteps::CarrySteps(const ReplicaLayout& layout, const Levels& levels, int rank)
    : layout_(layout), rank_(rank), are_possible_(true), are_levels_(true) {
  for (int level = 0; level < levels.count(); ++level) {
    bounds_.push_back(levels.bounds(level, rank));
    for (int other = 0; other < layout_.ranks();) {
      const std::vector<int> groups = levels.bounds(level, other);
      for (std::size_t group = 0; group + 1 < groups.size(); ++group) note_blocks(groups[group], groups[group + 1]);
      other = groups.back();
    }
  }
}

void CarrySteps::note_blocks(int first_rank, int last_rank) {
  const auto blocks = aligned_blocks(layout_.first(first_rank), layout_.first(last_rank), layout_.replicas());
  most_blocks_ = std::max(most_blocks_, blocks.size());
}

}  // namespace lockstep::detail
