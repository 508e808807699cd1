// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The levels of a node with many ranks: the ranks of a cache domain, the domains of a socket, the sockets. In each
// level a rank reads one rank of each neighbouring group, and in the last level the groups cover the node. There is no
// leader: after the last level, every rank has what it would have read from all ranks.
//
// P ranks on s sockets of d domains of g ranks read (g - 1) + (d - 1) + (s - 1) ranks each, in 3 steps, instead of
// P - 1 ranks in one step. On large nodes that is faster, because each line of another cache domain takes about 100 ns.
// Ruefenacht, Bull, Booth: Generalisation of recursive doubling for AllReduce (2017).

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

/// The processors on which a rank runs. Ranks with equal numbers share a socket, or a last-level cache.
struct NodePlace {
  std::int32_t socket = 0;
  std::int32_t domain = 0;  ///< unique on the node, not only in the socket
  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

/// Groups of consecutive ranks. The groups of level 0 are the single ranks; level j joins groups to groups of level
/// j + 1. Value type; thread-safe.
class Levels {
 public:
  /// The most ranks that one level joins if they do not share a cache.
  static constexpr int most_neighbours = 8;
  /// The most ranks of one level if they share a cache.
  static constexpr int most_in_domain = 16;
  /// The most levels.
  static constexpr int most_levels = 5;

  /// The levels of ranks at `places`, by rank. One level if there are at most `most_neighbours` ranks, or at most
  /// `most_in_domain` ranks of one domain. Follows domains and sockets if their ranks are consecutive; otherwise the
  /// groups have about `most_neighbours` ranks.
  explicit Levels(std::span<const NodePlace> places);

  /// As above; if `places` is empty, the levels of `ranks` ranks that share all caches.
  Levels(int ranks, std::span<const NodePlace> places);

  [[nodiscard]] int ranks() const noexcept { return starts_.front().back(); }
  /// Number of levels; 1: every rank reads all others.
  [[nodiscard]] int count() const noexcept { return static_cast<int>(starts_.size()) - 1; }
  /// Whether the groups follow domains and sockets.
  [[nodiscard]] bool follow_places() const noexcept { return follow_places_; }
  /// The groups that `level` joins for `rank`: group i has ranks [bounds[i], bounds[i+1]).
  [[nodiscard]] std::vector<int> bounds(int level, int rank) const;
  /// The rank that `rank` reads in each of these groups; `rank` itself for its own group.
  [[nodiscard]] std::vector<int> sources(int level, int rank) const;
  /// The first ranks of the groups that level 0 makes, then the number of ranks.
  [[nodiscard]] const std::vector<int>& domains() const noexcept { return starts_[1]; }
  /// The largest number of groups that `level` joins.
  [[nodiscard]] int radix(int level) const;
  /// The radices as text: "8.8.2".
  [[nodiscard]] std::string text() const;

 private:
  void join_all_of(const std::vector<int>& bounds);

  std::vector<std::vector<int>> starts_;  // by level: first rank of each group, then the number of ranks
  bool follow_places_ = true;
};

}  // namespace lockstep::detail
