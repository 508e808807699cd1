// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/trace_merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

namespace lockstep::detail {
namespace {

constexpr double interval_ns = 10e9;

/// Bounds of an offset in one interval.
struct Bounds {
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
  double time = 0;  // sum of the times of the operations
  int count = 0;

  void add(double low, double high, double at) {
    lower = std::max(lower, low);
    upper = std::min(upper, high);
    time += at;
    ++count;
  }
};

/// One operation of a rank, in nanoseconds of its own clock.
struct LocalTimes {
  std::string_view clock;
  double posted = 0;
  double agreed = 0;
};

/// Communicator, epoch and sequence.
using Position = std::tuple<std::uint64_t, std::vector<int>, std::uint64_t, std::int64_t>;

std::map<Position, std::vector<LocalTimes>> times_of(const std::vector<RankTrace>& ranks) {
  std::map<Position, std::vector<LocalTimes>> times;
  for (const RankTrace& rank : ranks) {
    for (const TracedGroup& group : rank.groups) {
      if (group.group.job_ranks.size() < 2) continue;
      for (const MeteredOperation& one : group.operations) {
        if (one.type != MeteredOperation::Type::collective || one.failure != 0 || one.agreed == 0) continue;
        times[{group.group.number, group.group.job_ranks, one.epoch, one.sequence}].push_back(
            {rank.clock, rank.nanoseconds(one.posted), rank.nanoseconds(one.agreed)});
      }
    }
  }
  return times;
}

/// The bounds of `clock` against `reference`, by interval.
std::map<std::int64_t, Bounds> bounds_of(const std::map<Position, std::vector<LocalTimes>>& times,
                                         std::string_view clock, std::string_view reference) {
  std::map<std::int64_t, Bounds> bounds;
  for (const auto& [position, ranks] : times) {
    for (const LocalTimes& own : ranks) {
      if (own.clock != clock) continue;
      for (const LocalTimes& other : ranks) {
        if (other.clock != reference) continue;
        bounds[static_cast<std::int64_t>(std::floor(own.agreed / interval_ns))].add(
            other.posted - own.agreed, other.agreed - own.posted, own.agreed);
      }
    }
  }
  return bounds;
}

ClockOffset offset_of(const RankTrace& rank, const RankTrace& reference,
                      const std::map<Position, std::vector<LocalTimes>>& times) {
  ClockOffset offset;
  for (const auto& [interval, bounds] : bounds_of(times, rank.clock, reference.clock)) {
    offset.points.emplace_back(bounds.time / bounds.count, (bounds.lower + bounds.upper) / 2);
    offset.uncertainty = std::max(offset.uncertainty, std::abs(bounds.upper - bounds.lower) / 2);
  }
  if (offset.points.empty()) {  // no common operation: as good as the wall clocks of the hosts
    offset.points.emplace_back(0, static_cast<double>(rank.wall_offset - reference.wall_offset));
    offset.uncertainty = -1;
  }
  return offset;
}

}  // namespace

double ClockOffset::at(double time) const {
  if (points.empty()) return 0;
  const auto next = std::lower_bound(points.begin(), points.end(), time,
                                     [](const auto& point, double at) { return point.first < at; });
  if (next == points.begin()) return next->second;
  const auto& [before, offset] = *(next - 1);
  if (next == points.end()) return offset;
  return offset + (next->second - offset) * (time - before) / (next->first - before);
}

std::vector<ClockOffset> align_clocks(const std::vector<RankTrace>& ranks) {
  std::map<std::string_view, ClockOffset> by_clock{{ranks.front().clock, {}}};
  const bool has_one_clock =
      std::all_of(ranks.begin(), ranks.end(), [&](const RankTrace& each) { return each.clock == ranks.front().clock; });
  if (!has_one_clock) {
    const auto times = times_of(ranks);
    for (const RankTrace& rank : ranks) {
      if (!by_clock.contains(rank.clock)) by_clock.emplace(rank.clock, offset_of(rank, ranks.front(), times));
    }
  }
  std::vector<ClockOffset> offsets;
  for (const RankTrace& rank : ranks) offsets.push_back(by_clock.at(rank.clock));
  return offsets;
}

}  // namespace lockstep::detail
