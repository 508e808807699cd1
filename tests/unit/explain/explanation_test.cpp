// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What lockstep-explain says of each mistake.

#include "explain/explanation.hpp"
#include "made_records.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace explain {
namespace {

std::string explanation_of(std::vector<Record> records) { return explain(select_job(std::move(records), {})); }

void expect_lines(const std::string& text, const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << "missing: " << line << "\nin:\n" << text;
}

TEST(Explanation, names_the_call_that_one_rank_left_out) {
  const std::vector<std::string> right{"reduce@a:1", "barrier@a:2", "reduce@a:1!"};
  const std::string text =
      explanation_of({made_record(0, 3, right), made_record(1, 3, {"reduce@a:1", "barrier@a:2", "barrier@a:2!"}),
                      made_record(2, 3, right)});
  expect_lines(text, {"world, operation #2: rank 1 called something else than the others", "  rank 1: barrier at a:2",
                      "  ranks 0, 2: reduce at a:1", "  before: all completed operation #1, barrier at a:2",
                      "  likely: rank 1 left out reduce at a:1"});
}

TEST(Explanation, names_the_call_that_one_rank_made_twice) {
  const std::vector<std::string> right{"reduce@a:1", "gather@a:2", "barrier@a:3", "reduce@a:1", "gather@a:2!"};
  std::vector<std::string> wrong = right;
  wrong.back() = "reduce@a:1!";
  expect_lines(explanation_of({made_record(0, 3, right), made_record(1, 3, right), made_record(2, 3, wrong)}),
               {"world, operation #4: rank 2 called something else than the others",
                "  likely: rank 2 called reduce at a:1 once more than the others"});
}

TEST(Explanation, finds_two_calls_in_the_opposite_order) {
  const std::vector<std::string> right{"reduce@a:1!", "barrier@a:2!"};
  expect_lines(explanation_of({made_record(0, 3, right), made_record(1, 3, right),
                               made_record(2, 3, {"barrier@a:2!", "reduce@a:1!"})}),
               {"  likely: rank 2 made the two calls in the opposite order"});
}

TEST(Explanation, blames_neither_of_two_ranks) {
  expect_lines(explanation_of({made_record(0, 2, {"reduce@a:1!"}), made_record(1, 2, {"barrier@a:2!"})}),
               {"world, operation #0: the ranks called different operations", "  rank 0: reduce at a:1",
                "  rank 1: barrier at a:2"});
}

TEST(Explanation, sees_that_the_arguments_of_one_line_differ) {
  const std::string text =
      explanation_of({made_record(0, 3, {"reduce of [3]@a:1!"}), made_record(1, 3, {"reduce of [3]@a:1!"}),
                      made_record(2, 3, {"reduce of [4]@a:1!"})});
  EXPECT_NE(text.find("  rank 2: reduce of [4] at a:1\n"), std::string::npos) << text;
}

TEST(Explanation, names_a_rank_that_has_not_come_and_its_last_call) {
  const std::string text =
      explanation_of({made_record(0, 3, {"barrier@a:1", "reduce@a:2?"}), made_record(1, 3, {"barrier@a:1"}),
                      made_record(2, 3, {"barrier@a:1", "reduce@a:2?"})});
  expect_lines(text, {"world, operation #1: rank 1 is missing", "  ranks 0, 2: waits in reduce at a:2",
                      "  rank 1: made no call after operation #0, barrier at a:1, 99.0 s before its file was written",
                      "  rank 2 had waited 98.0 s when its file was written"});
}

TEST(Explanation, names_a_rank_without_a_file) {
  const std::string text = explanation_of({made_record(0, 3, {"barrier@a:1!"}), made_record(2, 3, {"barrier@a:1!"})});
  expect_lines(text, {"no file of rank 1", "world, operation #0: rank 1 is missing",
                      "  rank 1: no file: it has ended, was killed or is stopped, or it has made no call since the "
                      "others failed"});
}

TEST(Explanation, does_not_blame_a_rank_without_a_file_that_took_part) {
  std::vector<Record> records{made_record(0, 2, {"barrier@a:1?"})};
  records.front().communicators.front().operations.front().state = "agreed";
  expect_lines(explanation_of(records),
               {"world, operation #0: all ranks made the same call, but it did not complete on all",
                "  rank 0: waits in barrier at a:1", "  rank 1: no file"});
}

TEST(Explanation, names_a_rank_that_came_late) {
  std::vector<Record> records{made_record(0, 3, {"barrier@a:1!"}), made_record(1, 3, {"barrier@a:1!"}),
                              made_record(2, 3, {"barrier@a:1!"})};
  records[1].communicators.front().operations.front().posted += 6'100'000;
  expect_lines(explanation_of(records),
               {"world, operation #0: all ranks made the same call, but it did not complete on all",
                "  ranks 0-2: failed in barrier at a:1", "  rank 1: called 6 s after rank 0"});
}

TEST(Explanation, finds_the_other_communicator_in_which_a_missing_rank_waits) {
  std::vector<Record> records{made_record(0, 2, {"barrier@a:1?"}), made_record(1, 2, {})};
  for (Record& record : records) {
    Communicator other = record.communicators.front();
    other.name = "other";
    other.number = 2;
    other.operations.clear();
    if (record.rank == 1) other.operations.push_back(made_operation("reduce@a:5?", 0));
    other.posted = other.operations.size();
    record.communicators.push_back(other);
  }
  expect_lines(
      explanation_of(records),
      {"world, operation #0: rank 1 is missing", "  rank 1: waits in operation #0, reduce at a:5, of other instead",
       "other, operation #0: rank 0 is missing", "  rank 0: waits in operation #0, barrier at a:1, of world instead"});
}

TEST(Explanation, notes_where_equal_calls_came_from_other_lines_first) {
  const std::vector<std::string> right{"reduce@a:1", "reduce@a:2", "reduce@a:1", "reduce@a:2!"};
  const std::string text =
      explanation_of({made_record(0, 3, right), made_record(1, 3, {"reduce@a:1", "reduce@a:1", "reduce@a:2"}),
                      made_record(2, 3, right)});
  EXPECT_NE(text.find("rank 1 is missing"), std::string::npos) << text;
  EXPECT_NE(text.find("already as operation #1, rank 1 called reduce at a:1 where rank 2 called reduce at a:2"),
            std::string::npos)
      << text;
}

TEST(Explanation, says_that_nothing_differs) {
  expect_lines(explanation_of({made_record(0, 2, {"barrier@a:1"}), made_record(1, 2, {"barrier@a:1"})}),
               {"no difference: all ranks with files made the same calls, and none waits",
                "  ranks 0, 1: completed operation #0, barrier at a:1"});
}

TEST(Explanation, prefers_what_has_not_recovered) {
  const std::vector<std::string> right{"reduce@a:1!", "barrier@a:2", "reduce@a:1?"};
  const std::string text =
      explanation_of({made_record(0, 2, right), made_record(1, 2, {"barrier@a:2!", "barrier@a:2"})});
  expect_lines(text, {"world, operation #2: rank 1 is missing"});
  EXPECT_EQ(text.find("operation #0"), std::string::npos) << text;
}

TEST(Explanation, tells_of_a_failure_after_which_the_ranks_went_on) {
  const std::string text = explanation_of(
      {made_record(0, 2, {"reduce@a:1!", "barrier@a:2"}), made_record(1, 2, {"barrier@a:2!", "barrier@a:2"})});
  expect_lines(text, {"world, operation #0: the ranks called different operations",
                      "  since then the ranks have completed other operations"});
}

TEST(Explanation, does_not_blame_a_rank_whose_file_begins_later) {
  std::vector<Record> records{made_record(0, 2, {"reduce@a:1", "reduce@a:1", "barrier@a:2?"}),
                              made_record(1, 2, {"reduce@a:1", "reduce@a:1", "barrier@a:2?"})};
  auto& operations = records[1].communicators.front().operations;
  operations.erase(operations.begin(), operations.begin() + 2);
  records[0].communicators.front().operations[1].state = "failed";
  expect_lines(explanation_of(records),
               {"world, operation #1: all ranks made the same call, but it did not complete on all"});
}

TEST(Explanation, shortens_lists_of_ranks) {
  std::vector<Record> records;
  for (int rank = 0; rank < 40; ++rank) {
    if (rank != 7 && rank != 9 && rank != 10) records.push_back(made_record(rank, 40, {"barrier@a:1?"}));
  }
  expect_lines(explanation_of(records), {"no file of ranks 7, 9, 10", "world, operation #0: ranks 7, 9, 10 are missing",
                                         "  ranks 0-6, 8, 11-39: waits in barrier at a:1"});
}

}  // namespace
}  // namespace explain
