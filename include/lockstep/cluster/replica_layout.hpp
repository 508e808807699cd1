// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The assignment of replicas to ranks: an exclusive scan of the local replica counts.

#pragma once

#include <lockstep/base/export.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Global replica ids 0..R-1, assigned to ranks in contiguous ranges; every rank has at least one replica. Copies share
/// memory, so that their cost does not depend on the number of ranks.
class LOCKSTEP_API ReplicaLayout {
 public:
  /// One rank with one replica.
  ReplicaLayout() : ReplicaLayout(std::vector<int>{1}) {}
  /// Rank p has `counts[p]` replicas. Throws Error(invalid_argument) for an empty list or a count below 1.
  explicit ReplicaLayout(std::vector<int> counts);
  ReplicaLayout(const ReplicaLayout&) = default;  // moving copies, so that each object has its lists
  ReplicaLayout& operator=(const ReplicaLayout&) = default;
  ~ReplicaLayout() = default;

  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(lists_->counts.size()); }
  [[nodiscard]] int replicas() const noexcept { return lists_->first.back(); }
  /// Number of replicas of a rank.
  [[nodiscard]] int count(int rank) const { return lists_->counts.at(static_cast<std::size_t>(rank)); }
  /// Lowest replica id of a rank; `first(ranks())` is `replicas()`.
  [[nodiscard]] int first(int rank) const { return lists_->first.at(static_cast<std::size_t>(rank)); }
  /// The rank of a replica. Throws std::out_of_range for an id that does not exist.
  [[nodiscard]] int rank_of(int replica) const;
  [[nodiscard]] std::span<const int> counts() const noexcept { return lists_->counts; }
  friend bool operator==(const ReplicaLayout& a, const ReplicaLayout& b) {
    return a.lists_ == b.lists_ || a.lists_->counts == b.lists_->counts;
  }

 private:
  struct Lists {
    std::vector<int> counts;
    std::vector<int> first;  // ranks() + 1 entries
  };
  std::shared_ptr<const Lists> lists_;
};

/// The replica counts as text: "[2, 1, 1]". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const ReplicaLayout& layout);

}  // namespace lockstep
