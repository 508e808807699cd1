// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/cluster_resolver.hpp>
#include <lockstep/cluster/mpi_cluster_resolver.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace lockstep {
namespace {

using test::expect_error;

const ClusterSpec workers{{"worker", {"a:1", "b:1"}}};

ClusterResolver numbered(std::map<std::string, ClusterSpec::Tasks> jobs) {
  return SimpleClusterResolver(ClusterSpec(std::move(jobs)));
}

TEST(ClusterResolver, of_ranks_names_them_by_number) {
  const ClusterResolver resolver(1, 2);
  EXPECT_EQ(resolver.task(), (ClusterTask{"worker", 1}));
  EXPECT_EQ(resolver.cluster_spec(), (ClusterSpec{{"worker", {"rank:0", "rank:1"}}}));
  EXPECT_EQ(resolver.master(), "rank:1");
  expect_error(Code::invalid_argument, {"rank is 2", "0 to 1"}, [] { ClusterResolver(2, 2); });
}

TEST(SimpleClusterResolver, returns_the_cluster_that_it_was_given) {
  const SimpleClusterResolver resolver(workers, {"worker", 1}, {{"GPU", 4}});
  EXPECT_EQ(resolver.cluster_spec(), workers);
  EXPECT_EQ(resolver.master(), "b:1");
  EXPECT_EQ(resolver.master("worker", 0), "a:1");
  EXPECT_EQ(resolver.num_accelerators().at("GPU"), 4);
  EXPECT_EQ(SimpleClusterResolver(workers).task_type(), "");
  EXPECT_EQ(SimpleClusterResolver(workers).task_id(), -1);
  EXPECT_EQ(SimpleClusterResolver(workers, {"evaluator", 0}).master(), "");
}

TEST(SimpleClusterResolver, refuses_tasks_that_do_not_exist) {
  expect_error(Code::invalid_argument, {"\"worker\" has no task 2"},
               [] { SimpleClusterResolver(workers, {"worker", 2}); });
  expect_error(Code::invalid_argument, {"no job \"ps\""}, [] { SimpleClusterResolver(workers, {"ps", 0}); });
  expect_error(Code::invalid_argument, {"both type and id"}, [] { SimpleClusterResolver(workers, {"worker", -1}); });
  expect_error(Code::invalid_argument, {"\"GPU\" is -1", "\"GPU\""},
               [] { SimpleClusterResolver(workers, {}, {{"GPU", -1}}); });
  expect_error(Code::invalid_argument, {"no task 5"}, [] { (void)SimpleClusterResolver(workers).master("worker", 5); });
}

TEST(UnionResolver, concatenates_lists_and_takes_the_first_resolvers_task) {
  const std::vector<ClusterResolver> parts{
      SimpleClusterResolver(workers, {"worker", 1}, {{"GPU", 2}}),
      SimpleClusterResolver(ClusterSpec{{"worker", {"c:1"}}, {"ps", {"d:1"}}}, {"ps", 0})};
  const UnionResolver both(parts);
  EXPECT_EQ(both.cluster_spec(), (ClusterSpec{{"worker", {"a:1", "b:1", "c:1"}}, {"ps", {"d:1"}}}));
  EXPECT_EQ(both.task(), (ClusterTask{"worker", 1}));
  EXPECT_EQ(both.num_accelerators(), (Accelerators{{"GPU", 2}}));
  EXPECT_EQ(UnionResolver(parts, {"worker", 2}).master(), "c:1");
}

TEST(UnionResolver, keeps_numbers_where_there_are_gaps) {
  const UnionResolver both(
      std::vector{numbered({{"worker", {{0, "a:1"}, {4, "e:1"}}}}), numbered({{"worker", {{2, "c:1"}}}})});
  EXPECT_EQ(both.cluster_spec().task_indices("worker"), (std::vector<int>{0, 2, 4}));
}

TEST(UnionResolver, refuses_contradicting_tasks) {
  expect_error(Code::invalid_argument, {"UnionResolver", "empty"}, [] { UnionResolver({}); });
  const std::vector<ClusterResolver> parts{SimpleClusterResolver(workers),
                                           numbered({{"worker", {{1, "x:1"}, {3, "y:1"}}}})};
  expect_error(Code::invalid_argument, {"task 1 of job \"worker\"", "b:1 and x:1"}, [&] { UnionResolver{parts}; });
}

TEST(MpiClusterResolver, needs_mpi) {
  expect_error(Code::failed_precondition, {"MpiClusterResolver", "lockstep::Environment"},
               [] { MpiClusterResolver(); });
}

}  // namespace
}  // namespace lockstep
