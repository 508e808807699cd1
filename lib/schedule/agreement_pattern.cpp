// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/agreement_pattern.hpp"

#include "schedule/radices.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr StageRadix joined_groups{StageKind::split, 4};

}  // namespace

AgreementPattern::AgreementPattern(int members) {
  std::vector<int> level(static_cast<std::size_t>(members) + 1);
  std::iota(level.begin(), level.end(), 0);
  while (true) {
    const auto groups = static_cast<int>(level.size()) - 1;
    std::vector<int> above;
    for (int group = 0; groups > 1 && group < groups_above(joined_groups, groups); ++group)
      above.push_back(level[static_cast<std::size_t>(group) * static_cast<std::size_t>(joined_groups.radix)]);
    levels_.push_back(std::move(level));
    if (above.empty()) return;
    above.push_back(members);
    level = std::move(above);
  }
}

std::vector<AgreementRound> AgreementPattern::rounds(int self) const {
  std::vector<AgreementRound> rounds;
  for (std::size_t k = 0; k + 1 < levels_.size(); ++k) {
    const std::vector<int>& level = levels_[k];
    const std::vector<int>& above = levels_[k + 1];
    const auto whole = std::upper_bound(above.begin(), above.end(), self);  // the end of the joined group
    const auto first = std::lower_bound(level.begin(), level.end(), *(whole - 1));
    const auto last = std::lower_bound(level.begin(), level.end(), *whole);
    const auto own = std::upper_bound(level.begin(), level.end(), self) - 1;
    const int position = self - *own;
    const int own_count = *(own + 1) - *own;
    AgreementRound round;
    round.bounds.assign(first, last + 1);
    round.group = static_cast<int>(own - first);
    for (auto group = first; group != last; ++group) {
      const int count = *(group + 1) - *group;
      round.sources.push_back(group == own ? self : *group + position % count);
      for (int target = position; group != own && target < count; target += own_count)
        round.targets.push_back(*group + target);
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace lockstep::detail
