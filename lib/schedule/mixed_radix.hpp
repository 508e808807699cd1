// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Mixed-radix all-reduce: one family that has halving/doubling (2.2.2...), direct exchange (one stage of radix P),
// recursive doubling (f2) and all between them as members.
//
// Groups of level 0 are the ranks; stage j joins neighbouring groups of level j to one of level j + 1. Members of a
// group of level j share the element space: it is cut into as many *lanes* as the radices so far have product, and each
// lane has one owner, who holds what the group knows of it: the canonical tree's nodes inside the group's replicas. In
// a stage that splits, the owners of a lane in the joined groups each keep a part of it, and send every other owner
// that one's part. In a stage that replicates each gets the whole lane from one holder in every other group. After the
// last stage everything is the root; the splitting stages run back as an all-gather. A group with more or fewer members
// than lanes deals them out evenly: some members own several then, or none.
//
// Groups are neighbours in id, so a group's replicas are one range [a, b), and what a member holds is aligned_blocks(a,
// b): one node where radices and replicas per rank are powers of two, a few otherwise. So any radices keep the tree.
//
// Steps: one per stage, and one more per splitting stage for the way back. Cost per rank of n bytes over P ranks where
// nodes are aligned: sum of (radix - 1) messages each way and (P-1)/P n bytes each way when all stages split; n
// (radix - 1) bytes per replicating stage. Thakur, Rabenseifner, Gropp: Optimization of Collective Communication
// Operations in MPICH (2005); Ruefenacht, Bull, Booth: Generalisation of recursive doubling for AllReduce (2017).

#pragma once

#include "schedule/radices.hpp"
#include "schedule/rank_layout.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::detail {

/// Elements [begin, end) of the element space of a list of tensors.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// One lane of one rank in one stage. The way back swaps both directions, of a splitting stage: `kept` goes to every
/// `receives[i].peer`, and `sends[i].elements` come from `sends[i].peer`.
struct LaneStep {
  struct Send {
    int peer;
    ElementRange elements;
  };
  struct Receive {
    int peer;
    int part;  ///< of the stage's groups, which one the sender speaks for
  };
  ElementRange kept;  ///< what the owner holds afterwards, and each receive brings
  std::vector<Send> sends;
  std::vector<Receive> receives;
};

/// What one rank does in one stage. Between a pair of ranks, messages of a stage go in the order of the lanes.
struct StageStep {
  StageKind kind = StageKind::split;
  /// The groups that the stage joins here: group i covers replicas [bounds[i], bounds[i+1]). At least one group; a
  /// single one has nothing to do.
  std::vector<int> bounds;
  int part = 0;  ///< the group that this rank speaks for
  std::vector<LaneStep> lanes;
};

/// Values; thread-safe. Everything here costs what it returns, times the number of stages, whatever P.
class MixedRadix {
 public:
  /// `layout` must outlive this. `radices` must cover its ranks, as those of RadixPattern::stages do.
  MixedRadix(const RankLayout& layout, Radices radices);

  [[nodiscard]] const RankLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Radices& radices() const noexcept { return radices_; }
  [[nodiscard]] int stages() const noexcept { return static_cast<int>(levels_.size()); }
  /// What `rank` does in `stage` of a reduction of the elements `all`.
  [[nodiscard]] StageStep step(int rank, int stage, ElementRange all) const;
  /// Lanes that `rank` owns when `stage` begins: 1 but in groups that are not full.
  [[nodiscard]] std::int64_t lanes(int rank, int stage) const;
  /// Ranks among which every kind of load is found: at both ends of the first and the last groups of every level, and a
  /// few between.
  [[nodiscard]] std::vector<int> telling_ranks() const;

 private:
  struct Level {  // how groups of one level are made of those below
    StageKind kind;
    int radix;           // groups below in a full one
    int below;           // groups below
    int groups;          // groups made
    std::int64_t lanes;  // of a group below
  };

  [[nodiscard]] int first_child(int stage, int group) const;
  [[nodiscard]] int parent(int stage, int child) const;
  [[nodiscard]] int members(int stage, int group) const {
    return first_child(stage, group + 1) - first_child(stage, group);
  }
  [[nodiscard]] int group_of(int rank, int level) const;
  /// The first group of level `low` inside `group` of level `high`.
  [[nodiscard]] int first_inside(int group, int high, int low) const;
  [[nodiscard]] int owner(int level, int group, std::int64_t lane) const;
  [[nodiscard]] std::vector<std::int64_t> lanes_of(int rank, int level) const;
  [[nodiscard]] ElementRange slice(int level, std::int64_t lane, ElementRange all) const;
  [[nodiscard]] ElementRange part(int stage, int group, int member, ElementRange lane) const;
  [[nodiscard]] LaneStep split(int stage, int group, int member, std::int64_t lane, ElementRange elements) const;
  [[nodiscard]] LaneStep replicate(int rank, int stage, int group, int member, std::int64_t lane,
                                   ElementRange elements) const;

  const RankLayout& layout_;
  Radices radices_;
  std::vector<Level> levels_;
  int splitting_ = 0;  // stages before the first that replicates
};

}  // namespace lockstep::detail
