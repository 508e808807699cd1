// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics: meters, and the formats of the files.

#include "cluster/metrics.hpp"
#include "cluster/operation_meter.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace lockstep::detail {
namespace {

constexpr std::string_view kind = "all_reduce";

MeteredOperation operation(std::uint64_t posted, std::uint64_t agreed, std::uint64_t finished) {
  MeteredOperation result;
  result.posted = posted;
  result.agreed = agreed;
  result.finished = finished;
  return result;
}

TEST(OperationMeter, counts_overlapping_time_once) {
  OperationMeter meter({}, false);
  meter.add(operation(100, 140, 150), 0, kind, 8);
  meter.add(operation(110, 160, 180), 0, kind, 8);  // posted while the first one ran
  MeterTotals totals;
  meter.add_totals(totals);
  EXPECT_EQ(totals.ticks, 80U);
  EXPECT_EQ(totals.waiting_ticks, 50U);
  EXPECT_EQ(totals.operations.at("all_reduce").calls, 2U);
  EXPECT_EQ(totals.operations.at("all_reduce").bytes, 16U);
  EXPECT_EQ(totals.operations.at("all_reduce").ticks, 80U);
}

TEST(OperationMeter, counts_what_does_not_fit_into_its_ring) {
  OperationMeter meter({}, true);
  for (std::size_t k = 0; k < OperationMeter::ring_size + 3; ++k) meter.add(operation(k, k, k), 0, kind, 0);
  EXPECT_EQ(meter.dropped(), 3U);
  std::size_t taken = 0;
  std::uint64_t next = 0;
  const auto take = [&](std::span<const MeteredOperation> part) {
    for (const MeteredOperation& each : part) EXPECT_EQ(each.posted, next++);
    taken += part.size();
  };
  meter.drain(take);
  EXPECT_EQ(taken, OperationMeter::ring_size);
  next = 7;
  meter.add(operation(7, 7, 7), 0, kind, 0);
  meter.drain(take);
  EXPECT_EQ(taken, OperationMeter::ring_size + 1);
  MeterTotals totals;
  meter.add_totals(totals);
  EXPECT_EQ(totals.operations.at("all_reduce").calls, OperationMeter::ring_size + 4);
}

TEST(OperationMeter, describes_a_call_once) {
  OperationMeter meter({}, true);
  int described = 0;
  const auto describe = [&] {
    ++described;
    return MeteredCall{};
  };
  EXPECT_EQ(meter.number_of_call(5, describe), 1U);
  EXPECT_EQ(meter.number_of_call(6, describe), 2U);
  EXPECT_EQ(meter.number_of_call(5, describe), 1U);
  EXPECT_EQ(described, 2);
  EXPECT_EQ(meter.new_calls().size(), 2U);
  EXPECT_EQ(meter.new_calls().size(), 0U);
}

Metrics example() {
  Metrics metrics;
  metrics.time = 1764100000.1234;
  metrics.job = "1357905921";
  metrics.rank = 1;
  metrics.ranks = 4;
  metrics.host = "n\"1";
  metrics.pid = 123;
  metrics.elapsed = 3.00004;
  metrics.seconds_of_tick = 0.5;
  metrics.totals.operations["all_reduce"] = {10, 4096, 4};
  metrics.totals.ticks = 4;
  metrics.totals.waiting_ticks = 1;
  metrics.values = {{"loss", 0.25}, {"rate", std::numeric_limits<double>::infinity()}};
  return metrics;
}

TEST(Metrics, are_one_line_of_json) {
  EXPECT_EQ(to_json_line(example()),
            R"({"time":1764100000.123,"job":1357905921,"rank":1,"ranks":4,"host":"n\"1","pid":123,"elapsed_s":3.0,)"
            R"("operations":{"all_reduce":{"calls":10,"bytes":4096,"seconds":2.0}},"communication_s":2.0,)"
            R"("waiting_s":0.5,"values":{"loss":0.25,"rate":null}})"
            "\n");
  Metrics other = example();
  other.job = "slurm-12";
  EXPECT_EQ(nlohmann::json::parse(to_json_line(other))["job"], "slurm-12");
}

TEST(Metrics, have_the_format_of_prometheus) {
  const std::string text = to_prometheus(example());
  for (const char* const line :
       {"# TYPE lockstep_operations_total counter\n",
        "lockstep_operations_total{job=\"1357905921\",rank=\"1\",host=\"n\\\"1\",operation=\"all_reduce\"} 10\n",
        "lockstep_waiting_seconds_total{job=\"1357905921\",rank=\"1\",host=\"n\\\"1\"} 0.5\n",
        "lockstep_value{job=\"1357905921\",rank=\"1\",host=\"n\\\"1\",name=\"rate\"} +Inf\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(Metrics, have_a_file_for_each_rank) {
  EXPECT_EQ(metrics_path("metrics.jsonl", 0), "metrics.rank0.jsonl");
  EXPECT_EQ(metrics_path("/a.b/metrics", 12), "/a.b/metrics.rank12");
  EXPECT_EQ(metrics_path("a/x.y.prom", 3), "a/x.y.rank3.prom");
}

TEST(Metrics, are_appended_to_regular_files_alone) {
  const test::TemporaryDirectory directory;
  const std::string path = (directory.path() / "m.jsonl").string();
  const auto refuses = [&](const std::string& reason) {
    test::expect_error(Code::invalid_argument,
                       {"LOCKSTEP_METRICS=\"" + path + "\": the file ", "m.rank1.jsonl cannot be written: " + reason},
                       [&] { MetricsFile(path, 1, 2).write(); });
  };
  MetricsFile(path, 0, 2).write();
  MetricsFile(path, 0, 2).write();
  const std::string lines = directory.read("m.rank0.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  directory.write("victim", "precious");
  std::filesystem::create_symlink(directory.path() / "victim", directory.path() / "m.rank1.jsonl");
  refuses("it is a symbolic link, and links are not followed");
  EXPECT_EQ(directory.read("victim"), "precious");
  std::filesystem::remove(directory.path() / "m.rank1.jsonl");
  const std::string pipe = (directory.path() / "m.rank1.jsonl").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);  // so that the file can be opened
  refuses("it is not a regular file");
  ::close(reader);
}

TEST(Metrics, for_prometheus_replace_a_link) {
  const test::TemporaryDirectory directory;
  directory.write("victim", "precious");
  std::filesystem::create_symlink(directory.path() / "victim", directory.path() / "m.rank0.prom");
  MetricsFile((directory.path() / "m.prom").string(), 0, 1).write();
  EXPECT_EQ(directory.read("victim"), "precious");
  EXPECT_NE(directory.read("m.rank0.prom").find("lockstep_ranks"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::detail
