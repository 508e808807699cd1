// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace lockstep::test {

/// Whether the lane is slow (sanitizers), so that cases which exercise the same code again are left out.
inline bool is_quick() { return std::getenv("QUICK_TESTS") != nullptr; }

/// All values, or every third one in such a lane.
template <class T>
[[nodiscard]] std::vector<T> some_of(std::vector<T> values) {
  if (!is_quick()) return values;
  std::vector<T> some;
  for (std::size_t i = 0; i < values.size(); i += 3) some.push_back(std::move(values[i]));
  return some;
}

}  // namespace lockstep::test
