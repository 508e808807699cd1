// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/cost_model.hpp"

#include "schedule/canonical_tree.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace lockstep::detail {
namespace {

/// Elements are counted in fractions of 1 / fineness, so that vectors of a few elements have a message for every slice
/// too. A schedule that is executed omits messages that would be empty.
constexpr std::int64_t fineness = 65536;
constexpr double part_bytes = 1.0 / fineness;
constexpr double zero_copy_bytes = 65536;  // messages of at least this size are received without CPU time
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
    std::vector<double> blocks;  // number of tree nodes that each group sends
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

}  // namespace lockstep::detail
