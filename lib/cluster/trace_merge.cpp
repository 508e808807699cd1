// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/trace_merge.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "cluster/files.hpp"
#include "cluster/launcher.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/trace.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

namespace lockstep {
namespace detail {
namespace {

namespace fs = std::filesystem;

/// Adds the operations and waits of one communicator of one rank, with times of the reference clock.
class GroupTimes {
 public:
  GroupTimes(JobTrace& trace, std::size_t rank, std::size_t group, std::size_t communicator)
      : trace_(trace), rank_(rank), group_(group), communicator_(communicator) {}

  void add_all() {
    for (const MeteredOperation& one : trace_.ranks[rank_].groups[group_].operations) add(one);
  }

 private:
  [[nodiscard]] double time(std::uint64_t stamp) const {
    const double local = trace_.ranks[rank_].nanoseconds(stamp);
    return local + trace_.offsets[rank_].at(local);
  }
  [[nodiscard]] const MeteredCall& call_of(const MeteredOperation& one) const {
    static const MeteredCall unknown{"operation", "operation", {}, {}, {}, 0, 0};
    const auto& calls = trace_.ranks[rank_].groups[group_].calls;
    return one.call == 0 || one.call > calls.size() ? unknown : calls[one.call - 1];
  }
  void add(const MeteredOperation& one) {
    if (one.type == MeteredOperation::Type::wait) {
      trace_.waits[rank_].push_back({time(one.posted), time(one.finished)});
      return;
    }
    TimedOperation timed;
    timed.rank = rank_;
    timed.group = group_;
    timed.communicator = communicator_;
    timed.operation = &one;
    timed.call = &call_of(one);
    timed.posted = time(one.posted);
    timed.end = time(one.finished);
    timed.begin = timed.posted;
    if (!timed.is_message()) {
      timed.begin = std::min(std::max(timed.posted, last_end_), timed.end);
      last_end_ = timed.end;
    }
    timed.agreed = one.agreed == 0 ? timed.end : std::clamp(time(one.agreed), timed.begin, timed.end);
    trace_.operations.push_back(timed);
  }

  JobTrace& trace_;
  const std::size_t rank_;
  const std::size_t group_;
  const std::size_t communicator_;
  double last_end_ = -std::numeric_limits<double>::infinity();
};

/// Adds the times of all ranks.
void add_times(JobTrace& trace) {
  std::map<std::tuple<std::uint64_t, std::vector<int>, std::string>, std::size_t> communicators;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    const RankTrace& own = trace.ranks[rank];
    for (std::size_t group = 0; group < own.groups.size(); ++group) {
      const MeteredGroup& of = own.groups[group].group;
      // without job ranks, the ranks are threads of this process
      const std::string process = of.job_ranks.empty() ? fmt::format("{} of rank {}", of.name, own.rank) : "";
      const auto entry = communicators.try_emplace({of.number, of.job_ranks, process}, communicators.size()).first;
      GroupTimes(trace, rank, group, entry->second).add_all();
    }
    for (const CompleteRange& range : own.ranges) {
      const double begin = own.nanoseconds(range.begin);
      const double end = own.nanoseconds(range.end);
      trace.ranges[rank].push_back({begin + trace.offsets[rank].at(begin), end + trace.offsets[rank].at(end)});
    }
  }
}

/// Makes the trace start at zero.
void shift_to_start(JobTrace& trace) {
  double start = std::numeric_limits<double>::infinity();
  double end = -start;
  const auto include = [&](double first, double last) {
    start = std::min(start, first);
    end = std::max(end, last);
  };
  for (const TimedOperation& each : trace.operations) include(each.posted, each.end);
  for (const auto& ranges : trace.ranges) {
    for (const Interval& each : ranges) include(each.begin, each.end);
  }
  if (start > end) return;
  trace.duration = end - start;
  for (TimedOperation& each : trace.operations) {
    for (double* const time : {&each.posted, &each.begin, &each.agreed, &each.end}) *time -= start;
  }
  for (auto* const lists : {&trace.ranges, &trace.waits}) {
    for (auto& list : *lists) {
      for (Interval& each : list) each = {each.begin - start, each.end - start};
    }
  }
}

void find_matches(JobTrace& trace) {
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < trace.operations.size(); ++k) {
    if (!trace.operations[k].is_message()) order.push_back(k);
  }
  const auto position = [&](std::size_t k) {
    const TimedOperation& each = trace.operations[k];
    return std::tuple(each.communicator, each.operation->epoch, each.operation->sequence);
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(position(a), trace.operations[a].begin) < std::tuple(position(b), trace.operations[b].begin);
  });
  for (auto first = order.begin(); first != order.end();) {
    const auto next = std::find_if(first, order.end(), [&](std::size_t k) { return position(k) != position(*first); });
    if (next - first > 1) trace.matches.emplace_back(first, next);
    first = next;
  }
  for (const std::vector<std::size_t>& match : trace.matches) {
    const TimedOperation& last = trace.operations[match.back()];
    const double lateness = last.begin - trace.operations[match[match.size() - 2]].begin;
    for (const std::size_t k : match) {
      trace.operations[k].last_rank = trace.rank_of(last);
      trace.operations[k].lateness = lateness;
    }
  }
}

struct TraceFile {
  std::string path;
  std::string job;
  fs::file_time_type written;
  std::uint64_t bytes = 0;
};

/// The trace files of all jobs in `directory`.
std::vector<TraceFile> find_files(const std::string& directory) {
  std::vector<TraceFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t dash = name.rfind("-rank");
    if (!name.starts_with("lockstep-") || !name.ends_with(trace_suffix) || dash == std::string::npos) continue;
    if (!entry.is_regular_file(error)) continue;
    const std::size_t begin = std::string_view("lockstep-").size();
    files.push_back(
        {entry.path().string(), name.substr(begin, dash - begin), entry.last_write_time(), entry.file_size()});
  }
  if (error) throw_error(Code::unavailable, "cannot read the directory {}: {}", directory, error.message());
  return files;
}

/// The files of `job` or, without it, of the job that was written last.
std::vector<TraceFile> files_of_job(const std::string& directory, const std::optional<std::string>& job) {
  std::vector<TraceFile> files = find_files(directory);
  const auto last =
      std::max_element(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.written < b.written; });
  const std::string chosen = job ? *job : last == files.end() ? "" : last->job;
  std::erase_if(files, [&](const TraceFile& each) { return each.job != chosen; });
  if (files.empty()) {
    throw_error(Code::invalid_argument, "{} has no trace files{}; set LOCKSTEP_TRACE to get them", directory,
                job ? " of job " + *job : "");
  }
  return files;
}

}  // namespace

JobTrace merge_ranks(std::vector<RankTrace> ranks) {
  JobTrace trace;
  trace.ranks = std::move(ranks);
  std::sort(trace.ranks.begin(), trace.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  trace.offsets = align_clocks(trace.ranks);
  trace.waits.resize(trace.ranks.size());
  trace.ranges.resize(trace.ranks.size());
  add_times(trace);
  shift_to_start(trace);
  find_matches(trace);
  return trace;
}

void merge_trace_of_this_job(const std::string& directory, int size) noexcept {
  try {
    const std::string job = name_of_this_job();
    std::uint64_t bytes = 0;
    for (const TraceFile& each : files_of_job(directory, job)) bytes += each.bytes;
    if (bytes > most_bytes_merged_at_end) {
      log_warning("LOCKSTEP_TRACE: the files of the ranks are in {}; to merge them: lockstep-trace --job {} {}",
                  directory, job, directory);
      return;
    }
    const MergedTrace merged = merge_trace(directory, job);
    log_warning("LOCKSTEP_TRACE: the trace of {} rank{} is {}; its summary is {}", size, size == 1 ? "" : "s",
                merged.trace_path, merged.summary_path);
  } catch (const std::exception& error) {
    log_warning("LOCKSTEP_TRACE: {}", error.what());
  }
}

}  // namespace detail

MergedTrace merge_trace(const std::string& directory, const std::optional<std::string>& job) {
  using namespace detail;
  const std::vector<TraceFile> files = files_of_job(directory, job);
  std::vector<RankTrace> ranks;
  for (const TraceFile& each : files) ranks.push_back(read_trace_file(each.path));
  const JobTrace trace = merge_ranks(std::move(ranks));
  MergedTrace merged;
  const std::string prefix = directory + "/lockstep-" + files.front().job;
  merged.trace_path = prefix + ".trace.json";
  merged.summary_path = prefix + ".summary.txt";
  merged.summary = summarize(trace);
  replace_file(merged.trace_path, "the trace", [&](const WriteText& write) { write_events(trace, write); });
  replace_file(merged.summary_path, merged.summary, "the summary");
  return merged;
}

}  // namespace lockstep
