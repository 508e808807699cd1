// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/marks.hpp"

#include "base/mark.hpp"

#include <array>
#include <cstddef>

namespace lockstep::simulation {
namespace {

constexpr std::array mark_names{
#define LOCKSTEP_NAME(name) std::string_view(#name),
    LOCKSTEP_EACH_MARK(LOCKSTEP_NAME)
#undef LOCKSTEP_NAME
};
static_assert(mark_names.size() == static_cast<std::size_t>(detail::Mark::count));

std::array<std::uint64_t, mark_names.size()> reached_counts{};  // threads of a job run one at a time

}  // namespace

void count_marks() {
  detail::mark_hook = [](detail::Mark mark) noexcept { ++reached_counts[static_cast<std::size_t>(mark)]; };
}

std::vector<MarkCount> mark_counts() {
  std::vector<MarkCount> result;
  for (std::size_t i = 0; i < mark_names.size(); ++i) result.push_back({mark_names[i], reached_counts[i]});
  return result;
}

}  // namespace lockstep::simulation
