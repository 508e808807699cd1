// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/trace_merge.hpp"

#include "base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace lockstep::detail {
namespace {

constexpr std::size_t most_calls_listed = 10;

double seconds(double nanoseconds) { return nanoseconds / 1e9; }
double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// "1.234 s", "12.3 ms", "4.5 us".
std::string duration(double nanoseconds) {
  if (nanoseconds >= 1e9) return fmt::format("{:.3f} s", nanoseconds / 1e9);
  if (nanoseconds >= 1e6) return fmt::format("{:.1f} ms", nanoseconds / 1e6);
  return fmt::format("{:.1f} us", nanoseconds / 1e3);
}

/// Sorted intervals that do not overlap, with the same points.
std::vector<Interval> united(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& each : intervals) {
    if (!result.empty() && each.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, each.end);
    } else {
      result.push_back(each);
    }
  }
  return result;
}

double length(const std::vector<Interval>& united_intervals) {
  double sum = 0;
  for (const Interval& each : united_intervals) sum += each.end - each.begin;
  return sum;
}

/// The length of what two lists of united intervals have in common.
double common_length(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double sum = 0;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    sum += std::max(0.0, std::min(x->end, y->end) - std::max(x->begin, y->begin));
    x->end < y->end ? static_cast<void>(++x) : static_cast<void>(++y);
  }
  return sum;
}

/// What the summary says of one rank.
struct RankTotals {
  std::size_t operations = 0;
  double begin = 0;
  double end = 0;
  double communication = 0;
  double waiting = 0;
  double overlapped = 0;  ///< communication in which no thread of the rank waited
};

std::vector<RankTotals> totals_of_ranks(const JobTrace& trace) {
  std::vector<std::vector<Interval>> busy(trace.ranks.size());
  std::vector<std::vector<Interval>> waiting(trace.ranks.size());
  std::vector<std::vector<Interval>> all(trace.ranges);
  std::vector<RankTotals> totals(trace.ranks.size());
  for (const TimedOperation& each : trace.operations) {
    ++totals[each.rank].operations;
    busy[each.rank].push_back({each.begin, each.end});
    if (each.agreed > each.begin) waiting[each.rank].push_back({each.begin, each.agreed});
    all[each.rank].push_back({each.posted, each.end});
  }
  for (std::size_t rank = 0; rank < totals.size(); ++rank) {
    const auto covered = united(std::move(all[rank]));
    const auto communication = united(std::move(busy[rank]));
    if (covered.empty()) continue;
    totals[rank].begin = covered.front().begin;
    totals[rank].end = covered.back().end;
    totals[rank].communication = length(communication);
    totals[rank].waiting = length(united(std::move(waiting[rank])));
    totals[rank].overlapped = totals[rank].communication - common_length(communication, united(trace.waits[rank]));
  }
  return totals;
}

std::string header(const JobTrace& trace) {
  std::set<std::string> hosts;
  for (const RankTrace& rank : trace.ranks) hosts.insert(rank.host);
  const int size = trace.ranks.front().size;
  std::string text = fmt::format(
      "job {}: {} rank{} on {} host{}, {} of wall time\n", printable(trace.ranks.front().job), trace.ranks.size(),
      trace.ranks.size() == 1 ? "" : "s", hosts.size(), hosts.size() == 1 ? "" : "s", duration(trace.duration));
  if (static_cast<int>(trace.ranks.size()) < size)
    text += fmt::format("note: the job has {} ranks; the others have no file here\n", size);
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    const RankTrace& each = trace.ranks[rank];
    if (!each.has_end)
      text += fmt::format("note: rank {} has not closed its file: it failed, or still runs\n", each.rank);
    if (each.dropped != 0)
      text += fmt::format("note: {} operations and ranges of rank {} are not in its file\n", each.dropped, each.rank);
    if (trace.offsets[rank].uncertainty < 0)
      text += fmt::format("note: the clock of rank {} was aligned by the wall clocks of the hosts only\n", each.rank);
  }
  double uncertainty = 0;
  for (const ClockOffset& each : trace.offsets) uncertainty = std::max(uncertainty, each.uncertainty);
  if (uncertainty > 0) text += fmt::format("clocks of the hosts are aligned to within {}\n", duration(uncertainty));
  return text;
}

std::string rank_table(const JobTrace& trace) {
  std::string text =
      "\nrank  operations  wall time [s]  communication  waiting for ranks  overlapped with computation\n";
  const std::vector<RankTotals> totals = totals_of_ranks(trace);
  for (std::size_t rank = 0; rank < totals.size(); ++rank) {
    const RankTotals& each = totals[rank];
    const double wall = each.end - each.begin;
    text += fmt::format("{:>4}  {:>10}  {:>13.3f}  {:>11.1f} %  {:>15.1f} %  {:>25.1f} %\n", trace.ranks[rank].rank,
                        each.operations, seconds(wall), percent(each.communication, wall), percent(each.waiting, wall),
                        percent(each.overlapped, each.communication));
  }
  return text + "(shares of the wall time; the last column is a share of the communication)\n";
}

/// Which rank arrived last, how often, and by how much.
std::string stragglers(const JobTrace& trace) {
  std::map<int, std::vector<double>> lateness;
  for (const auto& match : trace.matches) {
    const TimedOperation& last = trace.operations[match.back()];
    lateness[last.last_rank].push_back(last.lateness);
  }
  if (lateness.empty()) return {};
  std::vector<std::tuple<double, int, std::vector<double>>> order;
  for (auto& [rank, times] : lateness) {
    double sum = 0;
    for (const double each : times) sum += each;
    std::sort(times.begin(), times.end());
    order.emplace_back(sum, rank, std::move(times));
  }
  std::sort(order.rbegin(), order.rend());
  std::string text = "\nlast to arrive (time after the last but one rank)\n";
  for (const auto& [sum, rank, times] : order) {
    text += fmt::format("  rank {}: in {} of {} operations, by {} in the median and {} at most; {} in all\n", rank,
                        times.size(), trace.matches.size(), duration(times[times.size() / 2]), duration(times.back()),
                        duration(sum));
  }
  return text;
}

/// The operations of one line of the program.
struct CallTotals {
  std::size_t count = 0;
  double time = 0;
  double waiting = 0;
  double longest = 0;
};

std::string longest_calls(const JobTrace& trace) {
  std::map<std::string, CallTotals> calls;
  for (const TimedOperation& each : trace.operations) {
    std::string name = each.call->call;
    if (!each.call->place.empty()) name += " at " + each.call->place;
    CallTotals& totals = calls[name];
    ++totals.count;
    totals.time += each.end - each.begin;
    totals.waiting += each.agreed - each.begin;
    totals.longest = std::max(totals.longest, each.end - each.begin);
  }
  std::vector<std::pair<std::string, CallTotals>> order(calls.begin(), calls.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tie(b.second.time, a.first) < std::tie(a.second.time, b.first);
  });
  if (order.size() > most_calls_listed) order.resize(most_calls_listed);
  if (order.empty()) return "\nno operation is in the files\n";
  std::string text = "\noperations with the most time (of all ranks)\n     time  waiting   count   longest\n";
  for (const auto& [name, totals] : order) {
    text += fmt::format("  {:>9}  {:>4.0f} %  {:>6}  {:>9}  {}\n", duration(totals.time),
                        percent(totals.waiting, totals.time), totals.count, duration(totals.longest), printable(name));
  }
  return text;
}

}  // namespace

std::string summarize(const JobTrace& trace) {
  return header(trace) + rank_table(trace) + stragglers(trace) + longest_calls(trace);
}

}  // namespace lockstep::detail
