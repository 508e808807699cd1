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
  ReplicaLayout();
  /// Rank p has `counts[p]` replicas. Throws Error(invalid_argument) for an empty list or a count below 1.
  explicit ReplicaLayout(std::vector<int> counts);
  ReplicaLayout(const ReplicaLayout&) noexcept;  // moving copies, so that each object has its lists
  ReplicaLayout& operator=(const ReplicaLayout&) noexcept;
  ~ReplicaLayout();

  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int replicas() const noexcept { return first_[ranks_]; }
  /// Number of replicas of a rank. Throws std::out_of_range for a rank that does not exist.
  [[nodiscard]] int count(int rank) const {
    if (rank < 0 || rank >= ranks_) throw_no_rank(rank);
    return counts_[rank];
  }
  /// Lowest replica id of a rank; `first(ranks())` is `replicas()`. Throws as `count`.
  [[nodiscard]] int first(int rank) const {
    if (rank < 0 || rank > ranks_) throw_no_rank(rank);
    return first_[rank];
  }
  /// The rank of a replica. Throws std::out_of_range for an id that does not exist.
  [[nodiscard]] int rank_of(int replica) const;
  [[nodiscard]] std::span<const int> counts() const noexcept;

 private:
  struct Lists;
  [[noreturn]] static void throw_no_rank(int rank);

  std::shared_ptr<const Lists> lists_;
  const int* counts_ = nullptr;  // in lists_
  const int* first_ = nullptr;   // in lists_; ranks_ + 1 entries
  int ranks_ = 0;
};
[[nodiscard]] LOCKSTEP_API bool operator==(const ReplicaLayout& a, const ReplicaLayout& b) noexcept;

/// The replica counts as text: "[2, 1, 1]". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const ReplicaLayout& layout);

}  // namespace lockstep
