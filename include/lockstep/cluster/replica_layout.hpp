// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The assignment of replicas to ranks: an exclusive scan of the local replica counts.

#pragma once

#include <lockstep/base/export.hpp>

#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Global replica ids 0..R-1, assigned to ranks in contiguous ranges; every rank has at least one replica.
class LOCKSTEP_API ReplicaLayout {
 public:
  /// One rank with one replica.
  ReplicaLayout() : ReplicaLayout(std::vector<int>{1}) {}
  /// Rank p has `counts[p]` replicas. Throws Error(invalid_argument) for an empty list or a count below 1.
  explicit ReplicaLayout(std::vector<int> counts);

  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(counts_.size()); }
  [[nodiscard]] int replicas() const noexcept { return first_.back(); }
  /// Number of replicas of a rank.
  [[nodiscard]] int count(int rank) const { return counts_.at(static_cast<std::size_t>(rank)); }
  /// Lowest replica id of a rank; `first(ranks())` is `replicas()`.
  [[nodiscard]] int first(int rank) const { return first_.at(static_cast<std::size_t>(rank)); }
  /// The rank of a replica. Throws std::out_of_range for an id that does not exist.
  [[nodiscard]] int rank_of(int replica) const;
  [[nodiscard]] std::span<const int> counts() const noexcept { return counts_; }
  friend bool operator==(const ReplicaLayout&, const ReplicaLayout&) = default;

 private:
  std::vector<int> counts_;
  std::vector<int> first_;  // ranks() + 1 entries
};

/// The replica counts as text: "[2, 1, 1]". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const ReplicaLayout& layout);

}  // namespace lockstep
