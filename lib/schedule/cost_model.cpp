// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/cost_model.hpp"

#include "schedule/agreement_pattern.hpp"
#include "schedule/canonical_tree.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace lockstep::detail {
namespace {

/// Bytes are counted in fractions of 1 / fineness, so that even a vector of a few bytes has a message for every slice.
/// When a schedule is executed, empty messages are omitted.
constexpr std::int64_t fineness = 65536;
constexpr double part_bytes = 1.0 / fineness;
constexpr double zero_copy_bytes = 65536;  // messages of at least this size are received without CPU time
constexpr double least_slice_bytes = 4096;
constexpr int all_walked = 128;
constexpr int walked_of_node = 16;

/// The load of one rank in a stage.
struct RankLoad {
  StageLoad load;
  double port_out = 0;
  double port_in = 0;
  double node_out = 0;
  double node_in = 0;
};

class Walk {
 public:
  Walk(const MixedRadix& schedule, std::int64_t bytes)
      : schedule_(schedule),
        layout_(schedule.layout()),
        all_{0, std::max<std::int64_t>(1, bytes) * fineness},
        forth_(static_cast<std::size_t>(schedule.stages())),
        back_(forth_.size()) {}

  void node(int node) {
    const int first = layout_.first_rank[static_cast<std::size_t>(node)];
    const int ranks = layout_.first_rank[static_cast<std::size_t>(node) + 1] - first;
    const int walked = std::min(ranks, walked_of_node);
    node_ = {first, first + ranks};
    std::vector<std::int64_t> messages(static_cast<std::size_t>(walked));
    std::vector<double> bytes(messages.size());
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      Port forth;
      Port back;
      const double scale = static_cast<double>(ranks) / walked;
      bool returns = false;
      for (int i = 0; i < walked; ++i) {
        const int rank = first + static_cast<int>(static_cast<std::int64_t>(ranks) * i / walked);
        const StageStep step = schedule_.step(rank, stage, all_);
        returns = step.kind != StageKind::replicate;
        const auto at = static_cast<std::size_t>(i);
        const auto count = [&](const RankLoad& one, Port& port, StageLoad& most) {
          port.out += one.port_out * scale;
          port.in += one.port_in * scale;
          messages[at] += static_cast<std::int64_t>(one.load.sends);
          bytes[at] += one.port_out + one.node_out;
          raise(most, one.load);
        };
        count(outward(step), forth, forth_[static_cast<std::size_t>(stage)]);
        if (returns) count(homeward(step), back, back_[static_cast<std::size_t>(stage)]);
      }
      raise_port(forth_[static_cast<std::size_t>(stage)], forth);
      if (returns) raise_port(back_[static_cast<std::size_t>(stage)], back);
    }
    for (const std::int64_t count : messages) messages_ = std::max(messages_, count);
    for (const double count : bytes) bytes_ = std::max(bytes_, count);
  }

  [[nodiscard]] ScheduleLoad result() const {
    ScheduleLoad load{forth_, messages_, std::llround(bytes_)};
    for (std::size_t stage = back_.size(); stage-- > 0;) {
      if (schedule_.radices()[stage].kind != StageKind::replicate) load.stages.push_back(back_[stage]);
    }
    return load;
  }

 private:
  struct Port {
    double out = 0;
    double in = 0;
  };
  struct Node {
    int first = 0;
    int last = 0;
  };

  static void raise(StageLoad& most, const StageLoad& one) {
    most.sends = std::max(most.sends, one.sends);
    most.receives = std::max(most.receives, one.receives);
    most.largest_bytes = std::max(most.largest_bytes, one.largest_bytes);
    most.node_bytes = std::max(most.node_bytes, one.node_bytes);
    most.added_bytes = std::max(most.added_bytes, one.added_bytes);
    most.leaves_node = most.leaves_node || one.leaves_node;
  }
  static void raise_port(StageLoad& most, const Port& port) {
    most.port_bytes = std::max({most.port_bytes, port.out, port.in});
  }

  void out(RankLoad& rank, int peer, double bytes) const {
    if (bytes == 0) return;
    rank.load.sends += 1;
    message(rank, bytes, is_here(peer) ? rank.node_out : rank.port_out, !is_here(peer));
  }
  void in(RankLoad& rank, int peer, double bytes) const {
    if (bytes == 0) return;
    rank.load.receives += 1;
    message(rank, bytes, is_here(peer) ? rank.node_in : rank.port_in, !is_here(peer));
  }
  static void message(RankLoad& rank, double bytes, double& through, bool leaves_node) {
    through += bytes;
    rank.load.largest_bytes = std::max(rank.load.largest_bytes, bytes);
    rank.load.leaves_node = rank.load.leaves_node || leaves_node;
    rank.load.node_bytes = std::max(rank.node_out, rank.node_in);
  }
  [[nodiscard]] bool is_here(int rank) const { return node_.first <= rank && rank < node_.last; }

  [[nodiscard]] RankLoad outward(const StageStep& step) const {
    std::vector<double> blocks;  // number of blocks of the canonical tree that each group sends
    for (std::size_t group = 0; group + 1 < step.bounds.size(); ++group) {
      blocks.push_back(
          static_cast<double>(aligned_blocks(step.bounds[group], step.bounds[group + 1], layout_.replicas()).size()));
    }
    const auto made = aligned_blocks(step.bounds.front(), step.bounds.back(), layout_.replicas()).size();
    const double arrays = std::accumulate(blocks.begin(), blocks.end(), static_cast<double>(made));
    RankLoad rank;
    for (const SliceStep& slice : step.slices) {
      for (const auto& send : slice.sends)
        out(rank, send.peer, bytes_of(send.elements) * blocks[static_cast<std::size_t>(step.group)]);
      for (const auto& receive : slice.receives)
        in(rank, receive.peer, bytes_of(slice.kept) * blocks[static_cast<std::size_t>(receive.group)]);
      if (!slice.receives.empty()) rank.load.added_bytes += bytes_of(slice.kept) * arrays;
    }
    return rank;
  }
  [[nodiscard]] RankLoad homeward(const StageStep& step) const {
    RankLoad rank;
    for (const SliceStep& slice : step.slices) {
      for (const auto& receive : slice.receives) out(rank, receive.peer, bytes_of(slice.kept));
      for (const auto& send : slice.sends) in(rank, send.peer, bytes_of(send.elements));
    }
    return rank;
  }
  static double bytes_of(ElementRange elements) { return static_cast<double>(elements.size()) * part_bytes; }

  const MixedRadix& schedule_;
  const RankLayout& layout_;
  ElementRange all_;
  Node node_;
  std::vector<StageLoad> forth_;
  std::vector<StageLoad> back_;
  std::int64_t messages_ = 0;
  double bytes_ = 0;
};

std::vector<int> nodes_of(const MixedRadix& schedule, WalkedRanks walked) {
  const RankLayout& layout = schedule.layout();
  std::vector<int> nodes;
  if (walked == WalkedRanks::all || (walked == WalkedRanks::representative && layout.ranks() <= all_walked)) {
    nodes.resize(static_cast<std::size_t>(layout.nodes()));
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
  }
  const int ranks = layout.ranks();
  for (const int rank :
       walked == WalkedRanks::few ? std::vector{ranks / 3, ranks / 2, ranks - 1} : schedule.representative_ranks()) {
    const auto next = std::upper_bound(layout.first_rank.begin(), layout.first_rank.end(), rank);
    nodes.push_back(static_cast<int>(next - layout.first_rank.begin()) - 1);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

/// Numbers of vectors in one round of the agreement, each the maximum over all groups. The round joins neighbouring
/// groups of ranks.
struct JoinedVectors {
  double largest = 0;  ///< held by one of the groups before the round joins them
  double touched = 0;  ///< loaded and stored by the sums of a joined group
};

/// `bounds` has the first rank of each group, then the end of the last group. `joined` has the same for the joined
/// groups.
JoinedVectors joined_vectors(const RankLayout& layout, const std::vector<int>& bounds, const std::vector<int>& joined) {
  const auto blocks = [&](int first, int last) {
    const auto replica = [&](int rank) { return layout.first_replica[static_cast<std::size_t>(rank)]; };
    return static_cast<double>(aligned_blocks(replica(first), replica(last), layout.replicas()).size());
  };
  JoinedVectors most;
  std::size_t group = 0;
  for (std::size_t whole = 0; whole + 1 < joined.size(); ++whole) {
    double touched = blocks(joined[whole], joined[whole + 1]);
    const bool is_one = bounds[group + 1] == joined[whole + 1];
    for (; bounds[group] < joined[whole + 1]; ++group) {
      const double part = blocks(bounds[group], bounds[group + 1]);
      most.largest = std::max(most.largest, part);
      touched += part;
    }
    if (!is_one) most.touched = std::max(most.touched, touched);
  }
  return most;
}

/// A list of leaders that contains the leader with the most messages: leader 0, and the first members of the last
/// groups of each round, because only the last groups differ in size.
std::vector<int> busiest_leaders(const AgreementPattern& pattern) {
  std::vector<int> leaders{0};
  for (std::size_t round = 0; round < pattern.round_count(); ++round) {
    const std::vector<int>& groups = pattern.groups(round);
    for (std::size_t back = 2; back <= std::min<std::size_t>(7, groups.size()); ++back)
      leaders.push_back(groups[groups.size() - back]);
  }
  return leaders;
}

/// The time of the agreement inside of the nodes: the leader of a node waits for all ranks of the node, adds their
/// data, and later passes the result on to them.
double agreement_in_nodes_us(const RankLayout& layout, const CostParameters& p, double data_bytes) {
  double most_us = 0;
  for (std::size_t node = 0; node + 1 < layout.first_rank.size(); ++node) {
    const int ranks = layout.first_rank[node + 1] - layout.first_rank[node];
    if (ranks == 1) continue;
    double us = 2 * p.node_latency_us;
    if (data_bytes > 0) {
      std::vector<int> bounds(static_cast<std::size_t>(ranks) + 1);
      std::iota(bounds.begin(), bounds.end(), layout.first_rank[node]);
      const JoinedVectors vectors = joined_vectors(layout, bounds, {bounds.front(), bounds.back()});
      const double read = (ranks - 1) * vectors.largest;  // number of vectors that the leader reads
      // + 1: each rank reads the result
      us += (read + 1) * data_bytes / (p.node_gbs * 1e3) + vectors.touched * data_bytes / (p.memory_gbs * 1e3);
    }
    most_us = std::max(most_us, us);
  }
  return most_us;
}

}  // namespace

ScheduleLoad schedule_load(const MixedRadix& schedule, std::int64_t bytes, WalkedRanks walked) {
  Walk walk(schedule, bytes);
  for (const int node : nodes_of(schedule, walked)) walk.node(node);
  return walk.result();
}

double stage_us(const CostParameters& p, const StageLoad& load, int segments) {
  if (load.sends == 0 && load.receives == 0) return 0;
  const double port_us = load.port_bytes / segments / (p.port_gbs * 1e3);
  const double node_us = load.node_bytes / segments / (p.node_gbs * 1e3);
  const double largest = load.largest_bytes / segments;
  const double one_us = largest / ((load.leaves_node ? p.port_gbs : p.node_gbs) * 1e3);
  const double messages = std::max(load.sends, load.receives);
  const double busy_us = p.overhead_us + std::max(port_us, node_us);
  const double wire_us = std::max(busy_us, messages * p.overhead_us + one_us);
  double receive_us = 0;
  if (largest < zero_copy_bytes) receive_us = p.overhead_us * (wire_us == busy_us ? (messages + 1) / 2 : 1);
  const double latency_us = load.leaves_node ? p.latency_us : p.node_latency_us;
  return std::max(latency_us + wire_us + receive_us, (load.sends + load.receives) * p.overhead_us) +
         load.added_bytes / segments / (p.memory_gbs * 1e3);
}

double schedule_us(const CostParameters& p, const std::vector<StageLoad>& stages, int segments) {
  double one_us = 0;
  double port_us = 0;
  double cpu_us = 0;
  for (const StageLoad& load : stages) {
    one_us += stage_us(p, load, segments);
    port_us += load.port_bytes / segments / (p.port_gbs * 1e3);
    cpu_us += (load.sends + load.receives) * p.overhead_us + load.node_bytes / segments / (p.node_gbs * 1e3) +
              load.added_bytes / segments / (p.memory_gbs * 1e3);
  }
  return one_us + (segments - 1) * std::max(port_us, cpu_us);
}

AgreementCost agreement_cost(const RankLayout& layout, const CostParameters& p, std::int64_t data_bytes) {
  const int nodes = layout.nodes();
  if (layout.ranks() == 1) return {};
  if (nodes == 1) return {p.node_latency_us, 0, 0};  // every rank reads the descriptors of all other ranks
  const AgreementPattern pattern(nodes);
  std::vector<std::vector<AgreementRound>> rounds;
  for (const int leader : busiest_leaders(pattern)) rounds.push_back(pattern.rounds(leader));

  const auto data = static_cast<double>(data_bytes);
  AgreementCost cost{agreement_in_nodes_us(layout, p, data), 0, 0};
  const auto ranks_of = [&](const std::vector<int>& groups) {
    std::vector<int> bounds;
    for (const int node : groups) bounds.push_back(layout.first_rank[static_cast<std::size_t>(node)]);
    return bounds;
  };
  std::vector<std::int64_t> messages(rounds.size());
  std::vector<double> bytes(rounds.size());
  for (std::size_t round = 0; round < rounds.front().size(); ++round) {
    StageLoad load{.largest_bytes = agreement_header_bytes, .leaves_node = true};
    if (data_bytes > 0) {
      const JoinedVectors vectors =
          joined_vectors(layout, ranks_of(pattern.groups(round)), ranks_of(pattern.groups(round + 1)));
      load.largest_bytes += vectors.largest * data;
      load.added_bytes = vectors.touched * data;
    }
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const AgreementRound& own = rounds[i][round];
      load.sends = std::max(load.sends, static_cast<double>(own.targets.size()));
      load.receives = std::max(load.receives, static_cast<double>(own.sources.size()) - 1);
      messages[i] += static_cast<std::int64_t>(own.targets.size());
      bytes[i] += static_cast<double>(own.targets.size()) * load.largest_bytes;
    }
    load.port_bytes = std::max(load.sends, load.receives) * load.largest_bytes;
    cost.time_us += stage_us(p, load, 1);
  }
  cost.messages = *std::max_element(messages.begin(), messages.end());
  cost.bytes = std::llround(*std::max_element(bytes.begin(), bytes.end()));
  return cost;
}

double node_reduce_us(const CostParameters& p, int ranks, std::int64_t bytes, NodeReads reads) {
  const auto whole = static_cast<double>(bytes);
  const bool is_sliced = reads == NodeReads::slices;
  const double own = is_sliced ? std::max(whole / ranks, std::min(whole, least_slice_bytes)) : whole;
  const double moved = (ranks - 1) * own * (is_sliced ? 2 : 1);
  const int crossings = is_sliced ? 2 : 1;  // waits for all ranks: at the arrival and, with slices, at the end
  return crossings * p.node_latency_us + moved / (p.node_gbs * 1e3) + (ranks + 1) * own / (p.memory_gbs * 1e3);
}

}  // namespace lockstep::detail
