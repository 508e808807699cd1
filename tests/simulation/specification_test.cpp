// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The specification finds each kind of violation in a report that is made up, and nothing in a right one.

#include "simulation/specification.hpp"

#include "simulation/cuts.hpp"
#include "simulation/error_text.hpp"
#include "simulation/job.hpp"
#include "simulation/scenario.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::simulation {
namespace {

using namespace std::chrono_literals;

const std::string timeout =
    "operation #1 of communicator, barrier at job.cpp:5: timed out after 2 s waiting for rank 1";

/// Three ranks and two barriers; rank 1 stops in the second one, and the others get an error in time.
struct Case {
  Case() {
    scenario.node_leaders = {0, 0, 2};
    scenario.replicas = {1, 1, 1};
    scenario.operations.resize(2);
    scenario.faults = {{.kind = FaultKind::stops, .rank = 1, .operation = 1, .turns = 1}};
    report.ranks.resize(3);
    for (Outcome& outcome : report.ranks) outcome.completed = 1;
    for (const std::size_t rank : {0U, 2U})
      report.ranks[rank].failure = {1, Code::deadline_exceeded, timeout, 1, 2100ms};
    report.ranks[1].fault_at = 100ms;
  }
  /// The violations, of which there is at most one kind.
  [[nodiscard]] bool finds(const std::string& text) const {
    const std::vector<std::string> found = violations(scenario, report);
    return !found.empty() && std::all_of(found.begin(), found.end(),
                                         [&](const std::string& each) { return each.find(text) != std::string::npos; });
  }

  Scenario scenario;
  Report report;
};

TEST(Specification, permits_an_error_in_time_that_names_the_culprit) {
  EXPECT_EQ(violations(Case().scenario, Case().report), std::vector<std::string>());
}

TEST(Specification, finds_an_innocent_rank_that_is_named) {
  Case named;
  for (Outcome& outcome : named.report.ranks) {
    if (outcome.failure) outcome.failure->text = "timed out after 2 s waiting for ranks 1, 2";
  }
  EXPECT_TRUE(named.finds("names rank 2, which did its part"));
  Case blamed;
  for (Outcome& outcome : blamed.report.ranks) {
    if (outcome.failure) outcome.failure->rank = 0;
  }
  EXPECT_TRUE(blamed.finds("blames rank 0, which did its part"));
}

TEST(Specification, finds_an_error_that_comes_late_or_not_at_all) {
  Case late;
  late.report.ranks[0].failure->at = 6s;
  EXPECT_TRUE(late.finds("after the last fault"));
  Case silent;
  silent.report.ranks[2].failure.reset();
  EXPECT_TRUE(silent.finds("rank 2 has ended after 1 operations without an error"));
  Case hanging;
  hanging.report.hangs = {"rank 0 in operation 1"};
  EXPECT_TRUE(hanging.finds("does not end: rank 0 in operation 1"));
}

TEST(Specification, finds_an_error_without_a_fault) {
  Case one;
  one.report.ranks[1].fault_at.reset();
  one.report.ranks[1].completed = 2;
  EXPECT_TRUE(one.finds("fails without a fault"));
}

TEST(Specification, finds_wrong_results_and_failures_after_recover) {
  Case wrong;
  wrong.report.ranks[1].wrong = {"operation 0"};
  EXPECT_TRUE(wrong.finds("a wrong result"));
  Case after;
  after.report.ranks[0].after = {-1, Code::unavailable, "gone", 1, 3s};
  EXPECT_TRUE(after.finds("after recover: gone"));
}

TEST(Specification, finds_different_texts_but_for_what_one_rank_knows) {
  Case one;
  one.report.ranks[0].failure->text += " (moved 3.0 of 4.0 KiB)";
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.report.ranks[0].failure->text += ", and more";
  EXPECT_TRUE(one.finds("say different things"));
}

TEST(Specification, permits_different_texts_of_two_culprits_on_different_nodes_alone) {
  Case one;
  one.scenario.node_leaders = {0, 1, 2, 2, 4};
  one.scenario.replicas = {1, 1, 1, 1, 1};
  one.report.ranks.resize(5);
  for (const std::size_t rank : {3U, 4U}) one.report.ranks[rank] = one.report.ranks[2];
  one.report.ranks[0].failure->text = "operation #1 of communicator, barrier: rank 1 has died";
  EXPECT_TRUE(one.finds("say different things"));
  one.scenario.faults.push_back({.kind = FaultKind::stops, .rank = 4, .operation = 1, .turns = 1});
  one.report.ranks[4].fault_at = 100ms;
  one.report.ranks[4].failure.reset();
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.report.ranks[3].failure->text = "operation #1 of communicator, barrier: rank 1 has died";
  EXPECT_TRUE(one.finds("say different things"));
}

/// Operation 1 is a message from each rank to the next one; rank 1 stops in it. Rank 0 tells rank 2 its error.
struct CaseOfMessages : Case {
  CaseOfMessages() {
    scenario.operations = {{}, {.kind = Kind::messages, .count = 1}};
    const std::string error =
        "send #0 of communicator from rank 0 to rank 1, send of f32 [1]: timed out after 2 s waiting for rank 1 to "
        "call recv";
    report.ranks[0].failure = {1, Code::deadline_exceeded, error, 1, 2100ms};
    report.ranks[2].failure = {1, Code::unavailable, "rank 0 failed at job.cpp:9: " + error, 0, 2100ms};
  }
};

TEST(SpecificationOfMessages, permits_an_error_of_one_rank_that_is_told_to_others) {
  CaseOfMessages one;
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.report.ranks[2].failure->rank = 1;
  EXPECT_TRUE(one.finds("rank 2 blames rank 1, which has not told it its error"));
}

TEST(SpecificationOfMessages, permits_the_name_of_a_rank_that_has_failed_itself) {
  CaseOfMessages one;
  one.report.ranks[2].failure = {
      1, Code::deadline_exceeded,
      "recv #0 of communicator from rank 0 to rank 2: timed out after 2 s waiting for rank 0 to call send", 0, 2100ms};
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.report.ranks[0].failure.reset();
  one.report.ranks[0].completed = 2;
  EXPECT_TRUE(one.finds("rank 0, which did its part"));
}

TEST(SpecificationOfMessages, finds_an_end_that_is_not_the_other_one) {
  CaseOfMessages one;
  one.report.ranks[0].failure->text =
      "send #0 of communicator from rank 0 to rank 1, send of f32 [1]: timed out after 2 s waiting for rank 0 to call "
      "recv";
  EXPECT_FALSE(violations(one.scenario, one.report).empty());
}

TEST(SpecificationOfMessages, finds_texts_of_a_mismatch_that_differ) {
  CaseOfMessages one;
  const std::string error =
      "message #0 of communicator from rank 0 to rank 1: rank 0 calls send, but rank 1 calls recv of f32 [7]";
  one.scenario.faults.front().kind = FaultKind::calls_other;
  one.report.ranks[0].failure = one.report.ranks[0].of_message = {1, Code::mismatch, error, 1, 150ms};
  one.report.ranks[1].failure = one.report.ranks[1].of_message = one.report.ranks[0].failure;
  one.report.ranks[2].failure = {1, Code::unavailable, "rank 0 failed at job.cpp:9: " + error, 0, 150ms};
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.report.ranks[1].of_message->text += ", and more";
  EXPECT_TRUE(one.finds("the ends of a message say different things"));
}

TEST(SpecificationOfMessages, finds_a_death_that_is_seen_late_and_an_abort_that_ends_a_message) {
  CaseOfMessages dead;
  dead.scenario.faults.front().kind = FaultKind::dies;
  dead.report.ranks[0].of_message = dead.report.ranks[0].failure;
  EXPECT_TRUE(dead.finds("has not seen that rank 1 has ended"));
  dead.scenario.node_leaders = {0, 1, 2};
  EXPECT_EQ(violations(dead.scenario, dead.report), std::vector<std::string>());
  dead.report.ranks[0].of_message->text = "rank 1 failed at job.cpp:9: no more bread on rank 1";
  EXPECT_TRUE(dead.finds("an error of another operation in a message"));
}

TEST(Specification, finds_an_abort_whose_text_others_do_not_get) {
  Case one;
  one.scenario.faults.front().kind = FaultKind::aborts;
  for (const std::size_t rank : {0U, 2U})
    one.report.ranks[rank].failure = {1, Code::unavailable, "rank 1 failed at job.cpp:9: " + text_of_abort(1), 1,
                                      150ms};
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.report.ranks[2].failure->code = Code::deadline_exceeded;
  EXPECT_TRUE(one.finds("does not get the text of an abort"));
}

TEST(Specification, finds_a_rank_without_memory_that_others_wait_for) {
  Case one;
  one.scenario.faults.front().kind = FaultKind::lacks_memory;
  EXPECT_TRUE(one.finds("fails 2.000 s after the last fault"));
  for (const std::size_t rank : {0U, 2U})
    one.report.ranks[rank].failure = {1, Code::unavailable, "rank 1 failed at job.cpp:9: std::bad_alloc", 1, 150ms};
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.report.ranks[0].after = one.report.ranks[0].failure;
  EXPECT_TRUE(one.finds("after recover"));
}

TEST(Specification, permits_the_name_of_a_rank_that_has_no_communicator) {
  Case one;
  one.scenario.recovers_at_once = true;
  one.scenario.faults.front().kind = FaultKind::lacks_memory;
  for (Outcome& outcome : one.report.ranks)
    outcome.failure = {1, Code::unavailable, "rank 1 failed at job.cpp:9: std::bad_alloc", 1, 150ms};
  one.report.ranks[1].has_communicator = false;
  one.report.ranks[0].after = {1, Code::unavailable, "recover: rank 2 has destroyed its communicator", 2, 160ms};
  EXPECT_TRUE(one.finds("rank 2, which did its part"));
  one.report.ranks[2].has_communicator = false;
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
}

TEST(SpecificationOfMessages, permits_the_shortage_of_the_other_end) {
  CaseOfMessages one;
  const std::string shortage = "rank 1 failed at job.cpp:9: std::bad_alloc";
  one.report.ranks[0].failure = one.report.ranks[0].of_message = {1, Code::unavailable, shortage, 1, 150ms};
  one.report.ranks[2].failure = {1, Code::unavailable, "rank 0 failed at job.cpp:9: " + shortage, 0, 150ms};
  EXPECT_TRUE(one.finds("an error of another operation in a message"));
  one.scenario.faults.front().kind = FaultKind::lacks_memory;
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
}

TEST(SpecificationOfMessages, follows_a_wait_by_the_error_of_the_rank_that_is_awaited) {
  CaseOfMessages one;
  one.scenario.node_leaders.push_back(2);
  one.scenario.replicas.push_back(1);
  one.report.ranks.push_back(one.report.ranks[0]);
  one.report.ranks[2].failure->text =
      "operation #1 of communicator, barrier: timed out after 2 s waiting for rank 0; rank 0 waits in recv #0 from "
      "rank 3 to rank 0";
  one.report.ranks[3].failure->text = "rank 0 failed at job.cpp:9: " + one.report.ranks[0].failure->text;
  one.report.ranks[3].failure->rank = 0;
  EXPECT_TRUE(one.finds("rank 0, which did its part"));
  one.report.ranks[3].of_message = {1, Code::deadline_exceeded, one.report.ranks[0].failure->text, 1, 2100ms};
  one.report.ranks[3].of_message->text.replace(std::string("send #0 of communicator from rank ").size(), 1, "3");
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
}

TEST(SpecificationOfMessages, permits_the_name_of_a_rank_that_waits_for_a_culprit) {
  CaseOfMessages one;
  const std::string error = "operation #1 of communicator, barrier: timed out after 2 s waiting for ranks 0, 1";
  one.report.ranks[2].failure = {1, Code::deadline_exceeded, error, 1, 2100ms};
  EXPECT_TRUE(one.finds("names rank 0, which did its part"));
  one.report.ranks[2].failure->text +=
      "; rank 0 waits in send #0 of communicator from rank 0 to rank 1, send of f32 [1]";
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  const std::string begin = "operation #1 of communicator, barrier: timed out after 2 s waiting for ranks 0, 3";
  one.report.ranks[2].failure->rank = 3;
  one.report.ranks[2].failure->text = begin + "; rank 0 waits in recv #0 from rank 3 to rank 0";
  EXPECT_TRUE(one.finds("which did its part"));
  one.report.ranks[2].failure->text += "; rank 3 waits in recv #0 from rank 1 to rank 3";
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.report.ranks[2].failure->text = begin + "; ranks 0, 3 wait in other calls";
  EXPECT_TRUE(one.finds("which did its part"));
  one.report.ranks[2].failure->text =
      begin + ", which is a long text" + std::string(200, '.') + "; ranks 0, 3 wait in other calls";
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
}

/// Operation 1 makes two communicators, of ranks 4, 2 and of 3, 0; rank 2 stops in it. Ranks 0 and 3 wait for it later.
struct CaseOfParts : Case {
  CaseOfParts() {
    scenario.node_leaders = {0, 0, 0, 0, 0};
    scenario.replicas = {1, 1, 1, 1, 1};
    scenario.operations = {{}, {.kind = Kind::all_reduce, .count = 1, .root = 1, .way = Way::split}, {}};
    scenario.faults = {{.kind = FaultKind::stops, .rank = 2, .operation = 1, .turns = 1}};
    report = {};
    report.ranks.resize(5);
    for (Outcome& outcome : report.ranks) outcome.completed = 1;
    report.ranks[2].fault_at = 100ms;
    const std::string error = "operation #0 of part 0 of 1, all_reduce: timed out after 2 s waiting for rank 1";
    report.ranks[4].failure = {1, Code::deadline_exceeded, error, 1, 2100ms};
    for (const std::size_t rank : {0U, 1U, 3U}) {
      report.ranks[rank].completed = 2;
      report.ranks[rank].failure = {2, Code::unavailable, "rank 4 failed at job.cpp:9: " + error, 4, 2100ms};
    }
  }
};

TEST(Specification, knows_the_ranks_of_communicators_that_an_operation_makes) {
  EXPECT_EQ(violations(CaseOfParts().scenario, CaseOfParts().report), std::vector<std::string>());
  CaseOfParts named;
  for (Outcome& outcome : named.report.ranks) {
    if (outcome.failure) outcome.failure->text.back() = '0';
  }
  EXPECT_TRUE(named.finds("names rank 4, which did its part"));
  CaseOfParts other;
  other.report.ranks[0].failure->rank = 3;
  EXPECT_TRUE(other.finds("rank 0 blames rank 3, which has not told it its error"));
  CaseOfParts blamed;
  blamed.report.ranks[4].failure->rank = 0;
  EXPECT_TRUE(blamed.finds("rank 4 blames rank 0, which did its part"));
}

TEST(Specification, permits_names_of_ranks_that_wait_on_another_communicator_beside_a_culprit) {
  CaseOfParts late;
  const std::string begin = "operation #2 of communicator, barrier: timed out after 2 s waiting for rank";
  const std::string end = "; rank 4 waits in operation #0 of part 0 of 1";
  late.report.ranks[0].failure = {2, Code::deadline_exceeded, begin + "s 2, 4" + end, 2, 2100ms};
  EXPECT_EQ(violations(late.scenario, late.report), std::vector<std::string>());
  late.report.ranks[0].failure->text = begin + "s 2, 3, 4; ranks 3, 4 wait in gather";
  EXPECT_EQ(violations(late.scenario, late.report), std::vector<std::string>());
  late.report.ranks[0].failure->text = begin + "s 2, 4";
  EXPECT_TRUE(late.finds("names rank 4, which did its part"));
  late.report.ranks[0].failure = {2, Code::deadline_exceeded, begin + " 4" + end + ", for rank 1 there", 4, 2100ms};
  EXPECT_EQ(violations(late.scenario, late.report), std::vector<std::string>());  // rank 1 of the part is rank 2
  late.report.ranks[0].failure->text = begin + " 4" + end;
  EXPECT_FALSE(violations(late.scenario, late.report).empty());
}

TEST(Specification, permits_failures_of_calls_that_were_left_open_before_the_fault) {
  Case open;
  open.scenario.operations[0].is_left_open = true;
  open.report.ranks[0].completed = 0;
  open.report.ranks[0].failure->operation = 0;
  EXPECT_EQ(violations(open.scenario, open.report), std::vector<std::string>());
  open.scenario.operations[0].is_left_open = false;
  EXPECT_TRUE(open.finds("before every fault"));
}

TEST(Specification, permits_an_end_whose_news_overtakes_data_between_nodes) {
  Case one;
  one.scenario.faults.front().kind = FaultKind::dies;
  for (const std::size_t rank : {0U, 2U})
    one.report.ranks[rank].failure = {1, Code::unavailable, "operation #1 of communicator: rank 1 has died", 1, 300ms};
  one.report.ranks[2].completed = 0;
  one.report.ranks[2].failure->operation = 0;
  EXPECT_TRUE(one.finds("before every fault"));
  one.scenario.delays.most_slow = 300ms;
  one.scenario.delays.slow_one_in = 20;
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.scenario.node_leaders = {0, 1, 1};  // on its node, data of rank 0 may be late
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
  one.scenario.node_leaders = {0, 0, 0};
  EXPECT_TRUE(one.finds("before every fault"));
}

TEST(Specification, gives_time_to_notice_an_end_that_no_rank_of_its_node_has_seen) {
  Case one;
  one.scenario.node_leaders = {0, 1, 1};
  one.scenario.faults.front().kind = FaultKind::dies;
  one.report.ranks[2].failure = {1, Code::unavailable, "operation #1 of communicator: rank 1 has died", 1, 300ms};
  EXPECT_TRUE(one.finds("fails 2.000 s after the last fault"));
  one.scenario.node_leaders = {0, 1, 1, 1};
  one.scenario.replicas.push_back(1);
  one.scenario.faults.push_back({.kind = FaultKind::lacks_memory, .rank = 3, .operation = 1, .turns = 1});
  one.report.ranks.push_back(one.report.ranks[1]);
  one.report.ranks[2].failure = {1, Code::unavailable, "rank 3 failed at job.cpp:9: std::bad_alloc", 3, 300ms};
  EXPECT_EQ(violations(one.scenario, one.report), std::vector<std::string>());
}

TEST(Specification, reads_the_ranks_of_a_text) {
  EXPECT_EQ(blamed("waiting for ranks 3, 11, 12, which made this call too late"), (std::vector<int>{3, 11, 12}));
  EXPECT_EQ(blamed("rank 5 has destroyed its communicator"), std::vector<int>{5});
  EXPECT_EQ(blamed("rank 5 has exited; rank 6 has finalized MPI"), (std::vector<int>{5, 6}));
  EXPECT_EQ(blamed("waiting for rank 4 (moved 1 of 2 MiB); rank 7 waits in barrier"), std::vector<int>{4});
  EXPECT_EQ(blamed("waiting for rank 4; ranks 7, 11 wait in barrier; rank 2 waits in gather"), std::vector<int>{4});
}

TEST(Scenario, is_the_same_for_one_seed_and_within_its_limits) {
  const Limits limits{.least_ranks = 3, .most_ranks = 5, .most_nodes = 2, .most_operations = 4, .most_faults = 1};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Scenario scenario = scenario_of(seed, limits);
    EXPECT_EQ(describe(scenario), describe(scenario_of(seed, limits)));
    EXPECT_TRUE(scenario.ranks() >= 3 && scenario.ranks() <= 5 && scenario.nodes() <= 2);
    EXPECT_LE(scenario.operations.size(), 4U);
    EXPECT_LE(scenario.faults.size(), 1U);
  }
}

TEST(Cut, of_a_rank_renumbers_the_others) {
  Scenario scenario;
  scenario.node_leaders = {0, 0, 2, 2, 2};
  scenario.replicas = {1, 2, 3, 4, 5};
  scenario.operations = {{.kind = Kind::broadcast, .count = 1, .root = 4},
                         {.kind = Kind::reduce, .count = 1, .root = 1}};
  scenario.faults = {{.kind = FaultKind::stops, .rank = 3}, {.kind = FaultKind::stops, .rank = 1}};
  EXPECT_TRUE(cut(scenario, "rank=2"));
  EXPECT_EQ(scenario.node_leaders, (std::vector<int>{0, 0, 2, 2}));
  EXPECT_EQ(scenario.replicas, (std::vector<int>{1, 2, 4, 5}));
  EXPECT_EQ(scenario.operations[0].root, 3);
  EXPECT_EQ(scenario.faults[0].rank, 2);
  EXPECT_TRUE(cut(scenario, "rank=1"));
  EXPECT_EQ(scenario.node_leaders, (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(scenario.faults.size(), 1U);
  EXPECT_EQ(scenario.faults[0].rank, 1);
  EXPECT_EQ(scenario.operations[1].root, 1);
}

TEST(Cut, of_operations_keeps_the_faults_of_the_others) {
  Scenario scenario;
  scenario.node_leaders = {0, 0};
  scenario.replicas = {1, 1};
  scenario.operations.resize(10);
  scenario.faults = {{.rank = 0, .operation = 3}, {.rank = 1, .operation = 8}};
  EXPECT_TRUE(cut(scenario, "before=2"));
  EXPECT_EQ(scenario.faults[0].operation, 1);
  EXPECT_TRUE(cut(scenario, "after=5"));
  EXPECT_EQ(scenario.operations.size(), 6U);
  EXPECT_EQ(scenario.faults.size(), 1U);
  for (const char* const wrong : {"before=6", "after=-1", "rank=0", "rank=", "fault=1", "x", ""})
    EXPECT_FALSE(cut(scenario, wrong));
}

TEST(Cut, of_calls_gives_the_common_ones_back) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Scenario scenario = scenario_of(seed, {});
    for (const Operation& operation : scenario.operations) changed += operation.is_common() ? 0 : 1;
    for (const std::string part : {"calls", "messages", "steps"}) ASSERT_TRUE(cut(scenario, part));
    for (const Operation& operation : scenario.operations)
      EXPECT_TRUE(operation.way == Way::call && operation.kind <= Kind::barrier);
  }
  EXPECT_GT(changed, 0);
}

TEST(Cut, of_memory_gives_the_former_faults_back) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Scenario scenario = scenario_of(seed, {});
    for (const Fault& fault : scenario.faults) changed += fault.kind == FaultKind::lacks_memory ? 1 : 0;
    for (const std::string part : {"deaths", "memory"}) ASSERT_TRUE(cut(scenario, part));
    for (const Fault& fault : scenario.faults)
      EXPECT_TRUE(fault.kind != FaultKind::lacks_memory && fault.kind != FaultKind::dies) << seed;
  }
  EXPECT_GT(changed, 0);
}

TEST(Cut, that_is_possible_makes_a_scenario_that_runs) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Scenario scenario = scenario_of(seed, {});
    for (const std::string& part : possible_cuts(scenario)) {
      Scenario smaller = scenario;
      ASSERT_TRUE(cut(smaller, part)) << part;
      EXPECT_EQ(violations(smaller, run(smaller, false)), std::vector<std::string>()) << seed << " " << part;
    }
  }
}

TEST(Job, has_the_same_history_for_one_seed) {
  const Scenario scenario = scenario_of(12, {});
  const Report first = run(scenario, false);
  EXPECT_NE(first.history, 0U);
  EXPECT_EQ(run(scenario, false).history, first.history);
}

}  // namespace
}  // namespace lockstep::simulation
