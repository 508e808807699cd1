// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which files lockstep-explain reads, and what it says of bad ones.

#include "explain/records.hpp"
#include "made_records.hpp"

#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace explain {
namespace {

const std::string good =
    R"({"lockstep_flight_record": 1, "job": "7", "rank": 0, "size": 2, "host": "h", "pid": 1, "reason": "request",
  "written_us": 5, "communicators": [{"name": "world", "transport": "mpi", "number": 1, "job_ranks": [0, 1], "rank": 0,
  "size": 2, "posted": 1, "failures": [{"epoch": 0, "sequence": 0, "text": "t"}], "operations": [{"epoch": 0,
  "sequence": 0, "call": "barrier", "kind": "barrier", "dtype": "f32", "elements": 0, "file": "a.cpp", "line": 3,
  "state": "completed", "posted_us": 4, "agreed_us": null, "finished_us": null}]}]})";

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string replaced(const std::string& part, const std::string& with) {
  std::string text = good;
  return text.replace(text.find(part), part.size(), with);
}

TEST(Records, are_read) {
  const lockstep::test::TemporaryDirectory directory;
  directory.write("lockstep-7-rank0.json", good);
  const Record record = read_record(find_records(directory.path().string()).at(0));
  EXPECT_EQ(record.size, 2);
  EXPECT_EQ(record.communicators.at(0).operations.at(0).text(), "barrier at a.cpp:3");
  EXPECT_EQ(record.communicators.at(0).failures.at(0).text, "t");
}

TEST(Records, that_are_damaged_are_refused_by_file_and_place) {
  const lockstep::test::TemporaryDirectory directory;
  const std::string path = (directory.path() / "lockstep-7-rank0.json").string();
  const auto error_of_text = [&](const std::string& text) {
    directory.write("lockstep-7-rank0.json", text);
    return error_of([&] { static_cast<void>(read_record(path)); });
  };
  const std::string place = path + ": record";
  EXPECT_EQ(error_of_text(good.substr(0, 50)), path + ": not a flight record of lockstep: invalid JSON at byte 51");
  EXPECT_EQ(error_of_text(""), path + ": not a flight record of lockstep: invalid JSON at byte 1");
  EXPECT_EQ(error_of_text("[1]"), path + ": not a flight record of lockstep");
  EXPECT_EQ(error_of_text("{}"), path + ": not a flight record of lockstep");
  EXPECT_NE(error_of_text(replaced("record\": 1", "record\": 2")).find("version 2, but this program reads version 1"),
            std::string::npos);
  EXPECT_EQ(error_of_text(replaced("\"job\": \"7\"", "\"job\": 7")), place + ".job: expected a string, found 7");
  EXPECT_EQ(error_of_text(replaced("\"host\"", "\"ghost\"")), place + ": there is no \"host\"");
  EXPECT_EQ(
      error_of_text(replaced("\"sequence\": 0, \"call\"", "\"sequence\": 1.5, \"call\"")),
      place +
          ".communicators[0].operations[0].sequence: expected an integer from -1 to 4611686018427387904, found 1.5");
  EXPECT_EQ(error_of_text(replaced("\"completed\"", "\"lost\"")),
            place +
                ".communicators[0].operations[0].state: expected \"posted\", \"agreed\", \"completed\" or \"failed\", "
                "found \"lost\"");
  EXPECT_EQ(error_of_text(replaced("[0, 1]", "[0]")),
            place + ".communicators[0].job_ranks: expected 2 ranks or none, found [0]");
  EXPECT_EQ(error_of_text(replaced("[0, 1], \"rank\": 0", "[0, 1], \"rank\": 2")),
            place + ".communicators[0].rank: expected a rank below the size, found 2");
  EXPECT_EQ(error_of_text(replaced("[0, 1], \"rank\": 0,\n  \"size\": 2", "[], \"rank\": 0,\n  \"size\": 1000000000")),
            place + ".communicators[0].size: expected a number up to 65536, found 1000000000");
  EXPECT_EQ(error_of_text(replaced("\"size\": 2", "\"size\": 1000000000")),
            place + ".size: expected a number up to 16777216, found 1000000000");
  EXPECT_EQ(error_of_text(replaced("\"operations\": [", "\"operations\": [3, ")),
            place + ".communicators[0].operations[0]: expected an object, found 3");
  const auto byte = [](const std::string& text, const std::string& part) {
    return std::to_string(text.find(part) + 1);
  };
  const std::string not_finite = replaced("\"written_us\": 5", "\"written_us\": 1e999");
  EXPECT_EQ(error_of_text(not_finite), path + ": not a flight record of lockstep: the number 1e999 at byte " +
                                           byte(not_finite, "1e999") + " is out of range");
  const std::string deep = replaced("\"failures\": [{", "\"failures\": " + std::string(200'000, '['));
  EXPECT_EQ(error_of_text(deep), path + ": not a flight record of lockstep: more than 64 levels of nesting at byte " +
                                     std::to_string(deep.find("[[") + 1 + 61));
  const std::string no_text = replaced("\"host\": \"h\"", "\"host\": \"h\xff\"");
  EXPECT_EQ(error_of_text(no_text),
            path + ": not a flight record of lockstep: invalid UTF-8 at byte " + byte(no_text, "\xff"));
  EXPECT_EQ(error_of_text(replaced("\"host\": \"h\"", "\"host\": [\"\\u009b\"]")),
            path + ": record.host: expected a string, found [\"\\xc2\\x9b\"]");
  EXPECT_EQ(error_of_text(good), "no error");
}

TEST(Records, have_no_control_characters_in_their_texts) {
  const lockstep::test::TemporaryDirectory directory;
  const std::string path = (directory.path() / "lockstep-7-rank0.json").string();
  std::string text = replaced("\"call\": \"barrier\"", "\"call\": \"barrier\\u001b[2J\\n\"");
  for (const auto& [part, with] :
       std::vector<std::pair<std::string, std::string>>{{"\"job\": \"7\"", "\"job\": \"7\\u001b\""},
                                                        {"\"name\": \"world\"", "\"name\": \"world\\u0007\""},
                                                        {"\"text\": \"t\"", "\"text\": \"t\\u007f\""},
                                                        {"\"file\": \"a.cpp\"", "\"file\": \"a\\r.cpp\""}})
    text.replace(text.find(part), part.size(), with);
  directory.write("lockstep-7-rank0.json", text);
  const Record record = read_record(path);
  EXPECT_EQ(record.job, "7\\x1b");
  const Communicator& communicator = record.communicators.at(0);
  EXPECT_EQ(communicator.name, "world\\x07");
  EXPECT_EQ(communicator.failures.at(0).text, "t\\x7f");
  EXPECT_EQ(communicator.operations.at(0).text(), "barrier\\x1b[2J\\x0a at a\\x0d.cpp:3");
}

TEST(Records, that_do_not_exist_are_refused_by_name) {
  const lockstep::test::TemporaryDirectory directory;
  const std::string path = directory.path().string();
  EXPECT_EQ(error_of([&] { static_cast<void>(find_records(path)); }),
            path + ": no flight record (lockstep-*.json) in this directory");
  EXPECT_EQ(error_of([&] { static_cast<void>(find_records(path + "/none")); }),
            path + "/none: there is no such file or directory");
}

TEST(Records, of_the_newest_job_are_chosen) {
  std::vector<Record> records{made_record(0, 2, {}), made_record(1, 2, {}), made_record(1, 2, {})};
  records[0].job = "old";
  records[0].written = 1;
  records[2].written += 1;  // the same rank, newer
  const Selection newest = select_job(records, {});
  ASSERT_EQ(newest.records.size(), 1U);
  EXPECT_EQ(newest.records.front().written, records[2].written);
  EXPECT_EQ(newest.others, std::vector<std::string>{"old"});
  EXPECT_EQ(select_job(records, "old").records.front().rank, 0);
  EXPECT_EQ(select_job(records, "all").records.size(), 2U);
  EXPECT_EQ(error_of([&] { static_cast<void>(select_job(records, "8")); }),
            "--job 8: there is no record of this job; there are records of 7, old");
}

}  // namespace
}  // namespace explain
