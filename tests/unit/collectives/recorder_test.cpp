// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The flight record: which operations it has, and what it says of them.

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/flight_record.hpp>
#include <lockstep/collectives/communicator.hpp>

#include "support/function_ref.hpp"
#include "support/ranks.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

/// Sets LOCKSTEP_RECORDER while it exists.
class RecorderVariable {
 public:
  explicit RecorderVariable(const std::string& value) { setenv("LOCKSTEP_RECORDER", value.c_str(), 1); }
  ~RecorderVariable() { unsetenv("LOCKSTEP_RECORDER"); }
};

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

/// The record of one rank of the communicator `name`; an empty object if there is none.
Json record_of(const Json& record, const std::string& name, int rank) {
  for (const Json& each : record["communicators"]) {
    if (each["name"] == name && each["rank"] == rank) return each;
  }
  return Json::object();
}

/// Writes the record while all ranks of `body` exist.
Json record_after(int ranks, FunctionRef<void(Communicator&)> body, CommunicatorOptions options) {
  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "record.json").string();
  on_ranks(
      std::vector<int>(static_cast<std::size_t>(ranks), 1),
      [&](Communicator& comm) {
        body(comm);
        comm.barrier(long_deadline());
        if (comm.rank() == 0) {
          EXPECT_EQ(write_flight_record(path), path);
        }
        comm.barrier(long_deadline());
      },
      std::move(options));
  return read_json(path);
}

TEST(Recorder, has_the_calls_of_each_rank_with_their_lines) {
  std::vector<unsigned> line(2);
  const Json record = record_after(2,
                                   [&](Communicator& comm) {
                                     float value = 1;
                                     line[static_cast<std::size_t>(comm.rank())] = __LINE__ + 1;
                                     value = comm.all_reduce(value, ReduceOp::max, {.name = "loss"});
                                   },
                                   {.name = "calls"});
  for (const int rank : {0, 1}) {
    const Json operations = record_of(record, "calls", rank)["operations"];
    const Json* found = nullptr;
    for (const Json& each : operations) found = each["kind"] == "all_reduce" ? &each : found;
    ASSERT_NE(found, nullptr) << operations;
    EXPECT_EQ((*found)["op"], "max");
    EXPECT_EQ((*found)["dtype"], "f32");
    EXPECT_EQ((*found)["elements"], 1);
    EXPECT_EQ((*found)["name"], "loss");
    EXPECT_EQ((*found)["file"], "collectives/recorder_test.cpp");
    EXPECT_EQ((*found)["line"], line[static_cast<std::size_t>(rank)]);
    EXPECT_EQ((*found)["state"], "completed");
    EXPECT_EQ((*found)["call"], "all_reduce max of f32 [1] named \"loss\"");
    const double age_us = record["written_us"].get<double>() - (*found)["posted_us"].get<double>();
    EXPECT_GE(age_us, -1e4);
    EXPECT_LE(age_us, 600e6);
  }
}

TEST(Recorder, keeps_the_last_operations_in_order) {
  const RecorderVariable variable("64");
  const Json record = record_after(2,
                                   [](Communicator& comm) {
                                     for (int k = 0; k < 500; ++k) comm.barrier(long_deadline());
                                   },
                                   {.name = "ring"});
  const Json one = record_of(record, "ring", 1);
  ASSERT_TRUE(one.contains("posted"));
  const auto& operations = one["operations"];
  ASSERT_GE(operations.size(), 62U);  // rank 1 may be in an operation that is being written
  ASSERT_LE(operations.size(), 64U);
  EXPECT_GE(one["posted"].get<int>(), 501);
  for (std::size_t k = 1; k < operations.size(); ++k)
    EXPECT_EQ(operations[k]["sequence"].get<int>(), operations[k - 1]["sequence"].get<int>() + 1);
}

TEST(Recorder, keeps_the_descriptions_of_many_different_calls) {
  const RecorderVariable variable("16");
  const Json record =
      record_after(2,
                   [](Communicator& comm) {
                     std::vector<float> values(200);
                     for (std::size_t n = 1; n <= values.size(); ++n) {
                       comm.all_reduce(std::span(values).first(n), ReduceOp::sum, long_deadline());
                       if (n % 3 == 0)
                         comm.all_reduce(std::span(values).first(1), ReduceOp::sum, long_deadline());  // cached
                     }
                   },
                   {.name = "many"});
  const Json operations = record_of(record, "many", 0)["operations"];
  ASSERT_GE(operations.size(), 15U);
  std::vector<std::int64_t> elements;
  for (const Json& each : operations) elements.push_back(each["elements"].get<std::int64_t>());
  // ..., 198, 1, 199, 200, barrier
  const std::vector<std::int64_t> end(elements.end() - 5, elements.end());
  EXPECT_EQ(end, (std::vector<std::int64_t>{198, 1, 199, 200, 0}));
}

TEST(Recorder, has_failures_and_the_operations_that_they_ended) {
  const Json record =
      record_after(3,
                   [](Communicator& comm) {
                     try {
                       comm.rank() == 1 ? comm.barrier() : comm.broadcast(*std::make_unique<float>(1.0F), 0);
                       ADD_FAILURE();
                     } catch (const Error& error) {
                       EXPECT_EQ(error.code(), Code::mismatch);
                     }
                   },
                   {.name = "failures"});
  for (const int rank : {0, 1, 2}) {
    const Json one = record_of(record, "failures", rank);
    ASSERT_EQ(one["failures"].size(), 1U);
    const Json failure = one["failures"][0];
    EXPECT_NE(failure["text"].get<std::string>().find("ranks disagree"), std::string::npos);
    const Json* failed = nullptr;
    for (const Json& each : one["operations"]) failed = each["state"] == "failed" ? &each : failed;
    ASSERT_NE(failed, nullptr);
    EXPECT_EQ((*failed)["result"], "mismatch");
    EXPECT_EQ((*failed)["sequence"], failure["sequence"]);
    EXPECT_EQ((*failed)["kind"], rank == 1 ? "barrier" : "broadcast");
    EXPECT_FALSE((*failed)["finished_us"].is_null());
  }
}

TEST(Recorder, numbers_the_operations_of_a_new_epoch_from_zero) {
  const Json record = record_after(2,
                                   [](Communicator& comm) {
                                     if (comm.rank() == 0) comm.abort("no more apples");
                                     if (comm.rank() == 1) {
                                       EXPECT_THROW(comm.barrier(long_deadline()), Error);
                                     }
                                     comm.barrier(long_deadline());
                                   },
                                   {.name = "epochs"});
  const Json operations = record_of(record, "epochs", 0)["operations"];
  ASSERT_GE(operations.size(), 2U);
  const Json last = operations[operations.size() - 1];
  EXPECT_EQ(last["epoch"], 1);
  EXPECT_LE(last["sequence"], 1);
}

TEST(Recorder, has_both_ends_of_a_message) {
  const Json record = record_after(2,
                                   [](Communicator& comm) {
                                     float value = 1;
                                     comm.rank() == 0 ? comm.send(value, 1) : comm.recv(value, 0);
                                   },
                                   {.name = "messages"});
  for (const int rank : {0, 1}) {
    const Json operations = record_of(record, "messages", rank)["operations"];
    const Json* message = nullptr;
    for (const Json& each : operations) message = each.contains("peer") ? &each : message;
    ASSERT_NE(message, nullptr);
    EXPECT_EQ((*message)["kind"], rank == 0 ? "send" : "recv");
    EXPECT_EQ((*message)["peer"], 1 - rank);
    EXPECT_EQ((*message)["state"], "completed");
    EXPECT_FALSE((*message)["agreed_us"].is_null());
  }
}

TEST(Recorder, has_an_operation_that_waits) {
  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "record.json").string();
  on_ranks({1, 1}, [&](Communicator& comm) {
    comm.barrier(long_deadline());
    if (comm.rank() == 0) {
      comm.barrier(long_deadline());
      return;
    }
    std::string state;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (state != "posted" && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      write_flight_record(path);
      const Json one = record_of(read_json(path), "communicator", 0);
      for (const Json& each : one["operations"]) state = each["state"].get<std::string>();
    }
    EXPECT_EQ(state, "posted");
    comm.barrier(long_deadline());
  });
}

TEST(Recorder, is_written_while_operations_run) {
  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "record.json").string();
  const RecorderVariable variable("16");  // entries are overwritten often
  std::atomic<bool> is_done{false};
  std::atomic<int> seen{0};
  std::jthread reader([&] {
    while (!is_done) {
      std::this_thread::yield();
      write_flight_record(path);
      const Json one = record_of(read_json(path), "busy", 0);
      if (one.empty()) continue;  // before the communicators exist, or after
      for (const Json& each : one["operations"]) {
        ++seen;
        // the two calls alternate; an entry that mixes them would be torn
        const bool is_reduction = each["kind"] == "all_reduce";
        EXPECT_EQ(each["elements"], is_reduction ? 3 : 0) << each;
        if (each["state"] != "completed") continue;
        EXPECT_EQ(each["sequence"].get<int>() % 2, is_reduction ? 0 : 1) << each;
      }
    }
  });
  on_ranks({1, 1},
           [&](Communicator& comm) {
             // until the reader, which may be slow to start on a busy machine, has read often
             const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
             std::vector<float> values(3);
             for (bool is_enough = false; !is_enough;) {
               const bool is_last = seen >= 1000 || std::chrono::steady_clock::now() > end;
               values.assign(3, comm.rank() == 0 && is_last ? 1.0F : 0.0F);
               comm.all_reduce(std::span(values), ReduceOp::sum, long_deadline());
               comm.barrier(long_deadline());
               is_enough = values[0] > 0;
             }
           },
           {.name = "busy"});
  is_done = true;
  reader.join();
  EXPECT_GE(seen, 1000);
}

TEST(Recorder, is_empty_if_it_is_switched_off) {
  const RecorderVariable variable("0");
  const Json record = record_after(2, [](Communicator&) {}, {.name = "off"});
  EXPECT_TRUE(record_of(record, "off", 0).empty());
}

TEST(Recorder, writes_to_the_directory_of_the_variable_but_not_after_failures_between_threads) {
  const TemporaryDirectory directory;
  const std::filesystem::path records = directory.path() / "records";  // is made
  const RecorderVariable variable("64," + records.string());
  on_ranks({1, 1}, [&](Communicator& comm) {
    EXPECT_THROW(static_cast<void>(comm.all_reduce(1.0F, comm.rank() == 0 ? ReduceOp::sum : ReduceOp::max)), Error);
    EXPECT_FALSE(std::filesystem::exists(records));
    comm.barrier(long_deadline());
    if (comm.rank() == 0) {
      EXPECT_EQ(std::filesystem::path(write_flight_record()).parent_path(), records);
    }
  });
  EXPECT_EQ(files_in(records).size(), 1U);
}

TEST(FlightRecord, names_the_file_that_cannot_be_written) {
  try {
    write_flight_record("/nonexistent/folder/record.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_NE(error.text().find("/nonexistent/folder/record.json: No such file"), std::string::npos) << error.text();
  }
}

}  // namespace
}  // namespace lockstep::test
