// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/planner.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr int most_chunks = 64;
constexpr std::int64_t least_segment_bytes = 262144;
constexpr int most_looks = 48;
constexpr int most_walks = 12;
constexpr std::array ends{"0", "r0", "f2", "f3", "f4", "f5", "f6", "f8", "f16"};

/// Numbers of segments to try. Segments below least_segment_bytes are not tried: their messages cost more than the
/// overlap saves.
std::vector<int> segment_counts(std::int64_t bytes) {
  std::vector<int> counts{1};
  while (counts.back() < most_chunks && bytes / (2 * counts.back()) >= least_segment_bytes)
    counts.push_back(2 * counts.back());
  return counts;
}

std::pair<double, int> best_chunks(const CostParameters& parameters, const std::vector<StageLoad>& stages,
                                   std::int64_t bytes) {
  std::pair best{std::numeric_limits<double>::infinity(), 1};
  for (const int segments : segment_counts(bytes))
    best = std::min(best, {schedule_us(parameters, stages, segments), segments});
  return best;
}

/// A closed-form estimate of the load of one rank. It visits no steps; it assumes that all nodes, groups and replicas
/// are equal.
class Estimate {
 public:
  Estimate(const RankLayout& layout, std::int64_t bytes) : layout_(layout), bytes_(static_cast<double>(bytes)) {
    for (std::size_t node = 0; node + 1 < layout.first_rank.size(); ++node)
      ranks_on_node_ = std::max(ranks_on_node_, layout.first_rank[node + 1] - layout.first_rank[node]);
  }

  [[nodiscard]] int ranks_on_node() const noexcept { return ranks_on_node_; }

  /// The load of one stage of the reduce-scatter or the all-gather, in which each rank exchanges `bytes` bytes with
  /// each of radix - 1 ranks. The ranks are `distance` apart from each other.
  [[nodiscard]] StageLoad load(double distance, int radix, double bytes) const {
    const double near = layout_.nodes() == 1 ? radix : std::min<double>(radix, ranks_on_node_ / distance);
    const double here = std::max(0.0, near - 1);
    const double away = radix - 1 - here;
    StageLoad load;
    load.sends = load.receives = radix - 1;
    load.largest_bytes = bytes;
    load.port_bytes = away * bytes * ranks_on_node_;
    load.node_bytes = here * bytes;
    load.leaves_node = away > 0;
    return load;
  }

  [[nodiscard]] std::vector<StageLoad> loads(const Radices& radices) const {
    std::vector<StageLoad> forth;
    std::vector<StageLoad> back;
    double distance = 1;
    double lane_bytes = bytes_;
    for (const StageRadix& stage : radices) {
      const int radix = stage.kind == StageKind::node ? ranks_on_node_ : stage.radix;
      const bool splits = stage.kind != StageKind::replicate;
      const double bytes = splits ? lane_bytes / radix : lane_bytes;
      forth.push_back(load(distance, radix, bytes));
      if (splits) back.push_back(forth.back());
      forth.back().added_bytes = (radix + 1) * bytes;
      if (splits) lane_bytes = bytes;
      distance *= radix;
    }
    forth.insert(forth.end(), back.rbegin(), back.rend());
    return forth;
  }

  /// The additional time of the ranks in an incomplete last group: such a rank owns several slices, and sends one
  /// message or more for each of them.
  [[nodiscard]] double lone_us(const CostParameters& parameters, const MixedRadix& schedule) const {
    double most = 1;
    for (int stage = 0; stage < schedule.stages(); ++stage)
      most = std::max(most, static_cast<double>(schedule.slice_count(layout_.ranks() - 1, stage)));
    return (most - 1) * parameters.overhead_us;
  }

 private:
  const RankLayout& layout_;
  double bytes_;
  int ranks_on_node_ = 1;
};

struct Candidate {
  double estimate_us = 0;
  Radices radices;
  bool is_well_known = false;  ///< its cost is determined even if many other candidates have better estimates
  std::size_t place = 0;       ///< position before sorting
};

class Planner {
 public:
  Planner(const RankLayout& layout, const CostParameters& parameters, std::int64_t bytes, FirstStage first)
      : layout_(layout), parameters_(parameters), bytes_(bytes), first_(first), estimate_(layout, bytes) {}

  [[nodiscard]] ScheduleChoice best() {
    if (first_ == FirstStage::node && layout_.nodes() == 2) {
      // if two nodes exchange whole slices, they send as many bytes as if they split the slices, in one step instead of
      // two; there are twice as many additions, but they overlap with the transfers through the shared port of the node
      add("n.r0");
      return priced(layout_, parameters_, candidates_.front().radices, bytes_);
    }
    if (first_ == FirstStage::any) {
      collect_well_known("", layout_.ranks());
      collect("", 1, layout_.ranks());
    }
    if (layout_.nodes() < layout_.ranks()) {
      const std::string whole_nodes = "r" + std::to_string(std::max(2, estimate_.ranks_on_node())) + ".";
      for (const char* const end : ends) {
        if (end[0] != '0' && first_ == FirstStage::any) add(whole_nodes + end);
      }
      collect_well_known("n.", layout_.nodes());
      collect("n.", estimate_.ranks_on_node(), layout_.nodes());
    }
    sort();
    // the steps of a few ranks show a load that the estimate omits: partial results that cannot be combined yet
    int looks = 0;
    for (Candidate& candidate : candidates_) {
      if (looks++ == most_looks) break;
      candidate.estimate_us = std::max(candidate.estimate_us, look_us(candidate));
    }
    sort();
    int walks = 0;
    for (const Candidate& candidate : candidates_) {
      if (candidate.is_well_known || walks < most_walks) walks += walk(candidate) ? 1 : 0;
    }
    return *best_;
  }

 private:
  void sort() {
    // candidates with equal estimates keep their order, because all ranks must choose the same candidate
    for (std::size_t i = 0; i < candidates_.size(); ++i) candidates_[i].place = i;
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.estimate_us, a.place) < std::tie(b.estimate_us, b.place);
    });
  }

  [[nodiscard]] double look_us(const Candidate& candidate) const {
    const MixedRadix schedule(layout_, candidate.radices);
    return best_chunks(parameters_, schedule_load(schedule, bytes_, WalkedRanks::few).stages, bytes_).first;
  }

  /// Determines the cost of a candidate from the steps of its schedule, unless its estimate is already no better than
  /// the best cost so far. Returns whether the cost was determined.
  bool walk(const Candidate& candidate) {
    if (best_ && candidate.estimate_us >= best_->time_us) return false;
    ScheduleChoice plan = priced(layout_, parameters_, candidate.radices, bytes_);
    if (!best_ || plan.time_us < best_->time_us) best_ = std::move(plan);
    return true;
  }

  enum class WellKnown : std::uint8_t { no, yes };

  void add(const std::string& pattern, WellKnown well_known = WellKnown::no) {
    Radices radices = RadixPattern(pattern).stages(layout_.ranks(), layout_.nodes());
    for (const Candidate& candidate : candidates_) {
      if (candidate.radices == radices) return;
    }
    const double regular_us = best_chunks(parameters_, estimate_.loads(radices), bytes_).first;
    const double lone_us = estimate_.lone_us(parameters_, MixedRadix(layout_, radices));
    candidates_.push_back({regular_us + lone_us, std::move(radices), well_known == WellKnown::yes});
  }

  /// Adds candidates that consist of `prefix`, further splitting stages and an element of `ends`, for each element.
  /// `units` is the number of groups that are left after `prefix`; `slices` is the number of slices into which `prefix`
  /// has split the vector.
  void collect(const std::string& prefix, int slices, int units) {
    for (const int segments : {1, segment_counts(bytes_).back()}) {
      std::map<int, std::pair<double, std::string>> near{{1, {0.0, prefix}}};
      for (int size = 2; size <= units && size > 0; size *= 2) {
        std::pair<double, std::string> best{std::numeric_limits<double>::infinity(), {}};
        for (int radix = 2; radix <= size && radix <= 128; radix *= 2) {
          const auto& [before_us, text] = near.at(size / radix);
          const double bytes = static_cast<double>(bytes_) / (static_cast<double>(slices) * size);
          StageLoad load = estimate_.load(static_cast<double>(slices) * size / radix, radix, bytes);
          double us = before_us + stage_us(parameters_, load, segments);
          load.added_bytes = (radix + 1) * bytes;
          us += stage_us(parameters_, load, segments);
          if (us < best.first) best = {us, text + std::to_string(radix) + "."};
        }
        near[size] = best;
      }
      for (const auto& [size, stages] : near) {
        for (const char* const end : ends) add(stages.second + end);
      }
    }
  }

  /// Adds recursive halving and doubling, direct exchange and recursive doubling.
  void collect_well_known(std::string halving, int units) {
    const std::string prefix = first_ == FirstStage::node ? halving : "";
    for (int size = 1; size < units; size *= 2) halving += "2.";
    for (const std::string& pattern : {halving + "0", prefix + "0", prefix + "r0", prefix + "f2"})
      add(pattern, WellKnown::yes);
  }

  const RankLayout& layout_;
  const CostParameters& parameters_;
  std::int64_t bytes_;
  FirstStage first_;
  Estimate estimate_;
  std::vector<Candidate> candidates_;
  std::optional<ScheduleChoice> best_;
};

}  // namespace

ScheduleChoice priced(const RankLayout& layout, const CostParameters& parameters, const Radices& radices,
                      std::int64_t bytes, int segments) {
  const MixedRadix schedule(layout, radices);
  ScheduleChoice plan{schedule.radices(), segments, 0, schedule_load(schedule, bytes)};
  if (segments != 0) {
    plan.time_us = schedule_us(parameters, plan.load.stages, segments);
  } else {
    std::tie(plan.time_us, plan.segments) = best_chunks(parameters, plan.load.stages, bytes);
  }
  return plan;
}

ScheduleChoice plan_all_reduce(const RankLayout& layout, const CostParameters& parameters, std::int64_t bytes,
                               FirstStage first) {
  return Planner(layout, parameters, bytes, first).best();
}

}  // namespace lockstep::detail
