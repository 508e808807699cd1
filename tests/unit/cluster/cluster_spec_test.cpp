// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/cluster_spec.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using test::expect_error;

const ClusterSpec training{{"chief", {"c:1"}}, {"worker", {"a:1", "b:1"}}};

ClusterSpec with_gaps() {
  return ClusterSpec(std::map<std::string, ClusterSpec::Tasks>{{"worker", {{0, "a:1"}, {7, "h:1"}}}});
}

TEST(ClusterSpec, returns_the_jobs_that_it_was_given) {
  EXPECT_TRUE(ClusterSpec().empty());
  EXPECT_FALSE(training.empty());
  EXPECT_EQ(training.jobs(), (std::vector<std::string>{"chief", "worker"}));
  EXPECT_TRUE(training.has_job("worker"));
  EXPECT_FALSE(training.has_job("ps"));
  EXPECT_EQ(training.num_tasks("worker"), 2);
  EXPECT_EQ(training.num_tasks("ps"), 0);
  EXPECT_EQ(training.task_indices("worker"), (std::vector<int>{0, 1}));
  EXPECT_EQ(training.task_address("worker", 1), "b:1");
  EXPECT_EQ(training.as_dict().at("chief").at(0), "c:1");
  EXPECT_EQ(to_string(training), "chief [c:1] worker [a:1, b:1]");
}

TEST(ClusterSpec, keeps_gaps_between_numbers) {
  const ClusterSpec spec = with_gaps();
  EXPECT_EQ(spec.num_tasks("worker"), 2);
  EXPECT_EQ(spec.task_indices("worker"), (std::vector<int>{0, 7}));
  EXPECT_EQ(spec.task_address("worker", 7), "h:1");
  EXPECT_EQ(to_string(spec), "worker [0 a:1, 7 h:1]");
  EXPECT_EQ(id_in_cluster(spec, "worker", 7), 1);
  EXPECT_TRUE(is_chief(spec, "worker", 0));
  EXPECT_FALSE(is_chief(spec, "worker", 7));
  expect_error(Code::invalid_argument, {"task_address", "no task 1", "0 a:1, 7 h:1"},
               [&] { (void)spec.task_address("worker", 1); });
}

TEST(ClusterSpec, is_equal_if_jobs_numbers_and_addresses_are_equal) {
  EXPECT_EQ(training, (ClusterSpec{{"worker", {"a:1", "b:1"}}, {"chief", {"c:1"}}}));
  EXPECT_NE(training, (ClusterSpec{{"worker", {"b:1", "a:1"}}, {"chief", {"c:1"}}}));
  EXPECT_NE(with_gaps(), (ClusterSpec{{"worker", {"a:1", "h:1"}}}));
}

TEST(ClusterSpec, refuses_empty_names_and_invalid_numbers) {
  using Jobs = std::map<std::string, ClusterSpec::Tasks>;
  expect_error(Code::invalid_argument, {"empty name"}, [] { ClusterSpec{{"", {"a:1"}}}; });
  expect_error(Code::invalid_argument, {"task 1", "\"worker\"", "empty address"},
               [] { ClusterSpec{{"worker", {"a:1", ""}}}; });
  expect_error(Code::invalid_argument, {"\"worker\"", "twice"},
               [] { ClusterSpec{{"worker", {"a:1"}}, {"worker", {"b:1"}}}; });
  expect_error(Code::invalid_argument, {"-1", "at least 0"}, [] { ClusterSpec(Jobs{{"worker", {{-1, "a:1"}}}}); });
  expect_error(Code::invalid_argument, {"task_indices", "no job \"ps\"", "chief, worker"},
               [] { (void)training.task_indices("ps"); });
  expect_error(Code::invalid_argument, {"task_address", "no job \"evaluator\""},
               [] { (void)training.task_address("evaluator", 0); });
}

TEST(Tasks, of_a_cluster_have_a_chief_a_count_and_a_number) {
  EXPECT_TRUE(is_chief(training, "chief", 0));
  EXPECT_FALSE(is_chief(training, "worker", 0));
  EXPECT_TRUE(is_chief(training, "evaluator", 0));
  EXPECT_EQ(worker_count(training), 3);
  EXPECT_EQ(worker_count(training, "evaluator"), 0);
  EXPECT_EQ(id_in_cluster(training, "chief", 0), 0);
  EXPECT_EQ(id_in_cluster(training, "worker", 1), 2);
}

TEST(Tasks, that_are_invalid_are_refused_with_name_and_rule) {
  const ClusterSpec servers{{"worker", {"a:1"}}, {"ps", {"b:1"}}};
  EXPECT_FALSE(is_chief(servers, "ps", 0));
  expect_error(Code::invalid_argument, {"id_in_cluster", "\"ps\""}, [&] { (void)id_in_cluster(servers, "ps", 0); });
  expect_error(Code::invalid_argument, {"worker_count", "\"ps\""}, [&] { (void)worker_count(servers, "ps"); });
  expect_error(Code::invalid_argument, {"\"bogus\"", "chief, worker, evaluator, ps"},
               [] { (void)is_chief(training, "bogus", 0); });
  expect_error(Code::invalid_argument, {"job \"local\""}, [] { (void)worker_count(ClusterSpec{{"local", {"a:1"}}}); });
  expect_error(Code::invalid_argument, {"2 tasks", "\"chief\"", "at most one"},
               [] { (void)worker_count(ClusterSpec{{"chief", {"a:1", "b:1"}}}); });
  expect_error(Code::invalid_argument, {"is_chief", "\"worker\" has no task 2", "a:1, b:1"},
               [] { (void)is_chief(training, "worker", 2); });
  expect_error(Code::invalid_argument, {"no task -1"}, [] { (void)id_in_cluster(training, "worker", -1); });
  expect_error(Code::invalid_argument, {"no job \"worker\""},
               [] { (void)worker_count(ClusterSpec{{"chief", {"a:1"}}}); });
}

}  // namespace
}  // namespace lockstep
