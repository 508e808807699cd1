// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The merge of trace files: clocks of several hosts, files that end early.

#include "cluster/trace_merge.hpp"
#include "cluster/trace_ranges.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/trace.hpp>

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

constexpr std::uint64_t ms = 1'000'000;  // in ticks, of which each is a nanosecond

/// The trace of a rank whose clock shows `ahead` more than that of rank 0. The operations begin every 10 ms; rank
/// `k % 2` arrives 1 ms after the other one in operation k, and all ranks know it 20 us later.
RankTrace rank_trace(int rank, const std::string& clock, std::int64_t ahead, int operations, double drift = 0) {
  RankTrace trace;
  trace.job = "job";
  trace.rank = rank;
  trace.size = 2;
  trace.clock = clock;
  trace.host = clock;
  trace.has_end = true;
  TracedGroup group;
  group.group = {"world", 7, {0, 1}, rank, 2};
  group.calls.push_back({"all_reduce", "all_reduce sum of f32 [4]", "", "app/main.cpp:5", "f32", 4, 16});
  const auto local = [&](std::uint64_t time) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(time) + ahead +
                                      static_cast<std::int64_t>(drift * static_cast<double>(time)));
  };
  for (int k = 0; k < operations; ++k) {
    const std::uint64_t begin = 1000 * ms + static_cast<std::uint64_t>(k) * 10 * ms;
    MeteredOperation one;
    one.posted = local(begin + (k % 2 == rank ? ms : 0));
    one.agreed = local(begin + ms + 20'000);
    one.finished = local(begin + ms + 50'000);
    one.sequence = k;
    one.call = 1;
    group.operations.push_back(one);
  }
  trace.groups.push_back(group);
  const std::uint64_t end = local(2000 * ms + static_cast<std::uint64_t>(operations) * 10 * ms);
  trace.readings = {{local(0), static_cast<std::int64_t>(local(0))}, {end, static_cast<std::int64_t>(end)}};
  return trace;
}

double largest_difference_of_ends(const JobTrace& trace) {
  double most = 0;
  for (const auto& match : trace.matches)
    most = std::max(most, std::abs(trace.operations[match[0]].end - trace.operations[match[1]].end));
  return most;
}

TEST(TraceMerge, aligns_the_clocks_of_hosts_by_their_operations) {
  const std::int64_t ahead = 3'600'000 * static_cast<std::int64_t>(ms);
  const JobTrace trace = merge_ranks({rank_trace(1, "b", ahead, 100), rank_trace(0, "a", 0, 100)});
  ASSERT_EQ(trace.matches.size(), 100U);
  EXPECT_LT(largest_difference_of_ends(trace), 25'000);
  EXPECT_EQ(trace.offsets[0].uncertainty, 0);
  EXPECT_GT(trace.offsets[1].uncertainty, 0);
  EXPECT_LT(trace.offsets[1].uncertainty, 25'000);
}

TEST(TraceMerge, follows_a_clock_that_drifts) {
  // 50 us per second; the trace takes 60 s
  const JobTrace trace = merge_ranks({rank_trace(0, "a", 0, 6000), rank_trace(1, "b", 5000, 6000, 50e-6)});
  // within an interval of 10 s, the drift is 500 us
  EXPECT_LT(largest_difference_of_ends(trace), 300'000);
}

TEST(TraceMerge, uses_wall_clocks_if_ranks_have_no_common_operation) {
  RankTrace other = rank_trace(1, "b", 0, 0);
  other.wall_offset = 70;
  const JobTrace trace = merge_ranks({rank_trace(0, "a", 0, 1), other});
  EXPECT_EQ(trace.offsets[1].at(12345), 70);
  EXPECT_NE(summarize(trace).find("rank 1 was aligned by the wall clocks"), std::string::npos);
}

TEST(TraceMerge, names_the_rank_that_was_last) {
  const JobTrace trace = merge_ranks({rank_trace(0, "a", 0, 3), rank_trace(1, "a", 0, 3)});
  ASSERT_EQ(trace.matches.size(), 3U);
  for (int k = 0; k < 3; ++k) {
    const TimedOperation& last = trace.operations[trace.matches[static_cast<std::size_t>(k)].back()];
    EXPECT_EQ(last.last_rank, k % 2);
    EXPECT_NEAR(last.lateness, static_cast<double>(ms), 1);
  }
  const std::string summary = summarize(trace);
  EXPECT_NE(summary.find("rank 0: in 2 of 3 operations, by 1.0 ms in the median"), std::string::npos) << summary;
}

TEST(TraceMerge, begins_an_operation_after_the_one_before) {
  RankTrace rank = rank_trace(0, "a", 0, 2);
  rank.groups[0].operations[1].posted = rank.groups[0].operations[0].posted;  // posted ahead
  const JobTrace trace = merge_ranks({rank});
  EXPECT_EQ(trace.operations[1].begin, trace.operations[0].end);
  EXPECT_EQ(trace.operations[1].posted, trace.operations[0].posted);
}

/// A file with a header, two clock readings and one communicator; `cut` bytes are missing at its end.
std::string write_file(const test::TemporaryDirectory& directory, std::size_t cut) {
  std::string text(trace_magic);
  const auto append = [&](TraceRecordType type, std::string_view bytes) {
    const TraceRecordHeader header{type, 0, bytes.size()};
    text.append(reinterpret_cast<const char*>(&header), sizeof header).append(bytes);
  };
  append(TraceRecordType::text, R"({"job":"12","rank":3,"size":4,"host":"n","pid":9,"clock":"c","wall_offset_ns":0})");
  const ClockReading reading{5, 6};
  append(TraceRecordType::clock, {reinterpret_cast<const char*>(&reading), sizeof reading});
  append(TraceRecordType::text, R"({"group":0,"name":"world","number":1,"job_ranks":[3,4],"rank":0,"size":2})");
  const MeteredOperation operation;
  append(TraceRecordType::operations, {reinterpret_cast<const char*>(&operation), sizeof operation});
  std::string path = (directory.path() / "lockstep-12-rank3.trace").string();
  std::ofstream(path, std::ios::binary) << text.substr(0, text.size() - cut);
  return path;
}

TEST(TraceRanges, that_do_not_fit_are_counted_for_each_trace) {
  keep_trace_ranges(true);
  for (std::size_t k = 0; k < most_ranges + 3; ++k) const TraceRange range("step");
  const TakenRanges first = take_trace_ranges();
  EXPECT_EQ(first.ranges.size(), most_ranges);
  EXPECT_EQ(first.dropped, 3);
  keep_trace_ranges(false);
  keep_trace_ranges(true);
  { const TraceRange range("step"); }
  const TakenRanges second = take_trace_ranges();
  keep_trace_ranges(false);
  EXPECT_EQ(second.ranges.size(), 1);
  EXPECT_EQ(second.dropped, 0);
  EXPECT_EQ(second.new_names, std::vector<std::string>{"step"});
}

TEST(TraceFile, of_a_rank_that_was_killed_is_read_up_to_its_end) {
  const test::TemporaryDirectory directory;
  EXPECT_EQ(read_trace_file(write_file(directory, 0)).groups.at(0).operations.size(), 1U);
  const RankTrace cut = read_trace_file(write_file(directory, 1));
  EXPECT_EQ(cut.rank, 3);
  EXPECT_TRUE(cut.groups.at(0).operations.empty());
  EXPECT_FALSE(cut.has_end);
}

TEST(TraceFile, that_is_damaged_is_refused_with_its_name) {
  const test::TemporaryDirectory directory;
  const std::string path = write_file(directory, 0);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(16) << "XXXX";
  try {
    (void)read_trace_file(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_NE(error.text().find(path + " is damaged at byte 16"), std::string::npos) << error.text();
  }
}

TEST(TraceFile, whose_text_is_nested_deeply_is_refused_with_the_place) {
  const test::TemporaryDirectory directory;
  std::string text(trace_magic);
  const std::string lists(200'000, '[');
  const TraceRecordHeader header{TraceRecordType::text, 0, lists.size()};
  text.append(reinterpret_cast<const char*>(&header), sizeof header).append(lists);
  directory.write("lockstep-12-rank3.trace", text);
  const std::string path = (directory.path() / "lockstep-12-rank3.trace").string();
  test::expect_error(Code::data_loss,
                     {path + " is damaged at byte " + std::to_string(trace_magic.size()) +
                      ": more than 64 levels of nesting at byte 65"},
                     [&] { static_cast<void>(read_trace_file(path)); });
}

TEST(TraceMerge, follows_no_links_that_have_the_names_of_its_files) {
  const test::TemporaryDirectory directory;
  write_file(directory, 0);
  directory.write("victim", "precious");
  const std::string result = (directory.path() / "lockstep-12.trace.json").string();
  for (const std::string& name : {result, result + ".part" + std::to_string(::getpid())})
    std::filesystem::create_symlink(directory.path() / "victim", name);
  EXPECT_EQ(merge_trace(directory.path().string(), "12").trace_path, result);
  EXPECT_EQ(directory.read("victim"), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(result));
  EXPECT_NE(directory.read("lockstep-12.trace.json").find("traceEvents"), std::string::npos);
}

TEST(TraceMerge, names_the_reason_if_its_files_cannot_be_written) {
  const test::TemporaryDirectory directory;
  write_file(directory, 0);
  const std::string result = (directory.path() / "lockstep-12.trace.json").string();
  std::filesystem::create_directory(result);
  test::expect_error(Code::unavailable, {"cannot write the trace " + result + ": Is a directory"},
                     [&] { static_cast<void>(merge_trace(directory.path().string(), "12")); });
}

TEST(TraceMerge, escapes_texts_of_the_files_in_its_summary) {
  RankTrace rank = rank_trace(0, "a", 0, 2);
  rank.job = "job\x1b[2J";
  rank.groups[0].calls[0].call = "all_reduce\n\x1b[31m";
  const std::string summary = summarize(merge_ranks({rank}));
  EXPECT_EQ(summary.find('\x1b'), std::string::npos);
  EXPECT_NE(summary.find("all_reduce\\x0a\\x1b[31m at app/main.cpp:5\n"), std::string::npos) << summary;
  EXPECT_NE(summary.find("job job\\x1b[2J: "), std::string::npos) << summary;
}

}  // namespace
}  // namespace lockstep::detail
