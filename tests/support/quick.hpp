// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace lockstep::test {

/// Whether a lane is slow by itself (sanitizers) and wants less of what shows the same code again and again.
inline bool is_quick() { return std::getenv("QUICK_TESTS") != nullptr; }

/// All values, but every third where that is enough.
template <class T>
[[nodiscard]] std::vector<T> some_of(std::vector<T> values) {
  if (!is_quick()) return values;
  std::vector<T> some;
  for (std::size_t i = 0; i < values.size(); i += 3) some.push_back(std::move(values[i]));
  return some;
}

}  // namespace lockstep::test
