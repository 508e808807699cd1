// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How often simulated jobs have reached the marks in rare branches of the library (lib/base/mark.hpp).

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::simulation {

struct MarkCount {
  std::string_view name;
  std::uint64_t count = 0;
};

/// Counts from now on.
void count_marks();
/// All marks, in the order of mark.hpp.
[[nodiscard]] std::vector<MarkCount> mark_counts();

}  // namespace lockstep::simulation
