// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep::detail {

/// Room for one result of each local replica, which replicas fill at the same time. Few replicas' results lie inside,
/// so that a step that returns something costs no memory for that.
template <class T>
class ReplicaResults {
 public:
  explicit ReplicaResults(int count) : more_(count > few ? static_cast<std::size_t>(count) : 0) {}

  [[nodiscard]] std::optional<T>& operator[](int local) noexcept {
    const auto index = static_cast<std::size_t>(local);
    return more_.empty() ? inside_[index] : more_[index];
  }

 private:
  static constexpr int few = 4;
  std::array<std::optional<T>, few> inside_{};
  std::vector<std::optional<T>> more_;
};

}  // namespace lockstep::detail
