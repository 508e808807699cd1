// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::races {

/// A step of a thread. The steps of a thread count from 1; step 0 comes before everything.
struct Step {
  int thread = 0;
  std::uint32_t number = 0;
};

/// For each thread, its last step that comes before the present state of what the clock belongs to.
class VectorClock {
 public:
  [[nodiscard]] bool has(Step step) const noexcept { return step.number <= of(step.thread); }
  [[nodiscard]] std::uint32_t of(int thread) const noexcept {
    const auto index = static_cast<std::size_t>(thread);
    return index < steps_.size() ? steps_[index] : 0;
  }
  void join(const VectorClock& other) {
    if (steps_.size() < other.steps_.size()) steps_.resize(other.steps_.size());
    for (std::size_t i = 0; i < other.steps_.size(); ++i) steps_[i] = std::max(steps_[i], other.steps_[i]);
  }
  void advance(int thread) {
    const auto index = static_cast<std::size_t>(thread);
    if (index >= steps_.size()) steps_.resize(index + 1);
    ++steps_[index];
  }
  void clear() noexcept { steps_.clear(); }

 private:
  std::vector<std::uint32_t> steps_;
};

}  // namespace lockstep::races
