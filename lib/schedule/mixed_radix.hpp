// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Mixed-radix all-reduce: a family of schedules that contains, in the notation of RadixPattern, recursive halving and
// doubling (2.2.2...), direct exchange (0: one stage of radix P), recursive doubling (f2), and the schedules between
// these.
//
// The groups of level 0 are the single ranks; stage j joins neighbouring groups of level j to one group of level j + 1.
// The members of a group of level j share the element space: it is cut into *slices*, whose number is the product of
// the radices of the stages before j. Each slice has one owner in the group. The owner holds the partial results of the
// group for its slice: the blocks of the canonical tree inside the group's replicas. In a splitting stage, the owners
// of the same slice in the joined groups divide this slice: each owner keeps one share, and sends every other owner the
// share of that owner. In a replicating stage, each owner gets the whole slice from one holder in every other group.
// After the last stage, the owner of each slice has the final result of this slice. The splitting stages then run in
// reverse as an all-gather. If a group has more or fewer members than slices, the slices are dealt out evenly: some
// members own several slices, or none.
//
// A group consists of consecutive ranks, so its replicas are one range [a, b), and a member holds aligned_blocks(a, b).
// If all radices and all numbers of replicas per rank are powers of two, the member holds one block, otherwise a few
// blocks. All partial results are blocks of the canonical tree, so every choice of radices evaluates the same tree.
//
// Steps: one per stage, and one more per splitting stage for the all-gather. Cost per rank for n bytes over P ranks
// with aligned blocks: if all stages split, the reduce-scatter and the all-gather each send the sum of (radix - 1)
// messages and (P-1)/P n bytes; a replicating stage sends n (radix - 1) bytes. Thakur, Rabenseifner, Gropp:
// Optimization of Collective Communication Operations in MPICH (2005); Ruefenacht, Bull, Booth: Generalisation of
// recursive doubling for AllReduce (2017).

#pragma once

#include "schedule/canonical_tree.hpp"
#include "schedule/radices.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

struct RankLayout {
  std::vector<int> first_replica;  ///< first replica of each rank, then the number of replicas
  std::vector<int> first_rank;     ///< first rank of each node, then the number of ranks

  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(first_replica.size()) - 1; }
  [[nodiscard]] int replicas() const noexcept { return first_replica.back(); }
  [[nodiscard]] int nodes() const noexcept { return static_cast<int>(first_rank.size()) - 1; }
  friend bool operator==(const RankLayout&, const RankLayout&) = default;
};

/// A layout with one replica per rank, and with nodes whose numbers of ranks differ by at most one. Requires 1 <= nodes
/// <= ranks.
[[nodiscard]] inline RankLayout even_rank_layout(int ranks, int nodes) {
  RankLayout layout;
  for (int rank = 0; rank <= ranks; ++rank) layout.first_replica.push_back(rank);
  for (int node = 0; node <= nodes; ++node)
    layout.first_rank.push_back(static_cast<int>(static_cast<long long>(ranks) * node / nodes));
  return layout;
}

/// Elements [begin, end) of a tensor, or of the element space of a list of tensors.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// The work of one rank for one slice in one stage of the reduce-scatter. In the all-gather, a splitting stage swaps
/// both directions: `kept` goes to every `receives[i].peer`, and `sends[i].elements` come from `sends[i].peer`.
struct SliceStep {
  struct Send {
    int peer;
    ElementRange elements;
  };
  struct Receive {
    int peer;
    int group;  ///< index of the sender's group among the joined groups
  };
  ElementRange kept;  ///< elements that the owner holds after the stage; each received message has the same elements
  std::vector<Send> sends;
  std::vector<Receive> receives;
};

/// The work of one rank in one stage. Between a pair of ranks, the messages of a stage are in the order of the slices.
struct StageStep {
  StageKind kind = StageKind::split;
  /// The groups that the stage joins: group i covers replicas [bounds[i], bounds[i+1]). There is at least one group. If
  /// there is only one group, the stage has no work for this rank.
  std::vector<int> bounds;
  int group = 0;  ///< index of this rank's group
  std::vector<SliceStep> slices;
};

/// A schedule. Value type; thread-safe. The time of a function is proportional to the size of its result times the
/// number of stages, and independent of P.
class MixedRadix {
 public:
  /// `layout` must outlive this object. `radices` must cover all ranks of `layout`, as a result of RadixPattern::stages
  /// does.
  MixedRadix(const RankLayout& layout, Radices radices);

  [[nodiscard]] const RankLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Radices& radices() const noexcept { return radices_; }
  [[nodiscard]] int stages() const noexcept { return static_cast<int>(levels_.size()); }
  /// The work of `rank` in `stage`, in a reduction of the elements `all`.
  [[nodiscard]] StageStep step(int rank, int stage, ElementRange all) const;
  /// Number of slices that `rank` owns when `stage` begins: 1 if its groups in the earlier stages are full.
  [[nodiscard]] std::int64_t slice_count(int rank, int stage) const;
  /// Whether all stages split, and all groups have as many members as slices. If so, every rank owns one slice after
  /// the last stage.
  [[nodiscard]] bool is_even() const;
  /// The slice that `rank` owns after the last stage, if is_even().
  [[nodiscard]] ElementRange last_slice(int rank, ElementRange all) const;
  /// Whether two ranks are in the same group of `level`. The groups of `level` are those that stage `level` joins.
  [[nodiscard]] bool are_together(int rank, int other, int level) const {
    return group_of(rank, level) == group_of(other, level);
  }
  /// Ranks among which every kind of load occurs: ranks at both ends of the first and the last groups of every level,
  /// and a few ranks between these.
  [[nodiscard]] std::vector<int> representative_ranks() const;

 private:
  struct Level {  // how a stage joins the groups below to groups of the next level
    StageKind kind;
    int radix;            // number of groups below in a full group
    int below;            // number of all groups below
    int groups;           // number of groups of the next level
    std::int64_t slices;  // number of slices of a group below
  };

  [[nodiscard]] int first_child(int stage, int group) const;
  [[nodiscard]] int parent(int stage, int child) const;
  [[nodiscard]] int members(int stage, int group) const {
    return first_child(stage, group + 1) - first_child(stage, group);
  }
  [[nodiscard]] int group_of(int rank, int level) const;
  /// The first group of level `low` inside `group` of level `high`.
  [[nodiscard]] int first_inside(int group, int high, int low) const;
  [[nodiscard]] int owner(int level, int group, std::int64_t slice) const;
  [[nodiscard]] std::vector<std::int64_t> slices_of(int rank, int level) const;
  [[nodiscard]] ElementRange elements_of(int level, std::int64_t slice, ElementRange all) const;
  [[nodiscard]] ElementRange share_of(int stage, int group, int member, ElementRange slice) const;
  [[nodiscard]] SliceStep split(int stage, int group, int member, std::int64_t slice, ElementRange elements) const;
  [[nodiscard]] SliceStep replicate(int rank, int stage, int group, int member, std::int64_t slice,
                                    ElementRange elements) const;

  const RankLayout& layout_;
  Radices radices_;
  std::vector<Level> levels_;
  int splitting_ = 0;  // number of splitting stages; replicating stages come later
};

/// The folds of a stage that joins neighbouring groups. The inputs are the blocks of the canonical tree that the groups
/// hold, in the order of replica ids: first the blocks of group 0, then the blocks of group 1, and so on. The outputs
/// are the blocks of the joined group. Each output consumes a run of consecutive inputs.
struct StageFold {
  struct Output {
    Block block;
    std::size_t inputs;  ///< number of inputs of this output
    std::vector<std::uint8_t> merges;
  };
  std::vector<std::vector<Block>> inputs;  ///< by group
  std::vector<Output> outputs;
};

/// A value of `leaves` in stage_fold: the inputs of all groups are single replicas.
inline constexpr int every_group = -1;

/// The fold of groups that cover replicas [bounds[i], bounds[i+1]) of `replicas` replicas. If `leaves` is the index of
/// a group, the inputs of that group are single replicas instead of blocks.
[[nodiscard]] StageFold stage_fold(std::span<const int> bounds, int replicas, std::optional<int> leaves = std::nullopt);

}  // namespace lockstep::detail
