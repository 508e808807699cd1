// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/slurm_cluster_resolver.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

void expect_list_refused(const std::string& text, std::initializer_list<std::string> parts) {
  SCOPED_TRACE(text);
  test::expect_error(Code::invalid_argument, {"expand_hostlist"}, [&] { (void)expand_hostlist(text); });
  test::expect_error(Code::invalid_argument, parts, [&] { (void)expand_hostlist(text); });
}

TEST(HostList, names_each_host_in_order) {
  EXPECT_EQ(expand_hostlist("n[01-03,7],m5-[1-2]"), (Names{"n01", "n02", "n03", "n7", "m5-1", "m5-2"}));
  EXPECT_EQ(expand_hostlist("login.site.org"), (Names{"login.site.org"}));
  EXPECT_EQ(expand_hostlist("b,a,b"), (Names{"b", "a", "b"}));
}

TEST(HostList, keeps_the_width_of_the_first_number) {
  EXPECT_EQ(expand_hostlist("n[098-101]"), (Names{"n098", "n099", "n100", "n101"}));
  EXPECT_EQ(expand_hostlist("n[8-11]"), (Names{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_hostlist("n[08-011]"), (Names{"n08", "n09", "n10", "n11"}));
}

TEST(HostList, combines_several_brackets_the_last_one_fastest) {
  EXPECT_EQ(expand_hostlist("r[1-2]n[1-2].x"), (Names{"r1n1.x", "r1n2.x", "r2n1.x", "r2n2.x"}));
  EXPECT_EQ(expand_hostlist("[1-2][3-4]"), (Names{"13", "14", "23", "24"}));
}

TEST(HostList, errors_give_position_and_reason) {
  expect_list_refused("", {"its end", "host name"});
  expect_list_refused("a,,b", {"character 3", "host name"});
  expect_list_refused("a,", {"its end", "host name"});
  expect_list_refused("n[1-2", {"its end", "]"});
  expect_list_refused("n[1;2]", {"character 4", "]"});
  expect_list_refused("n1]", {"character 3", "not allowed in a host name"});
  expect_list_refused("n 1", {"character 2", "not allowed in a host name"});
  expect_list_refused("n[]", {"character 3", "number"});
  expect_list_refused("n[1-]", {"character 5", "number"});
  expect_list_refused("n[a-b]", {"character 3", "number"});
  expect_list_refused("n[3-1]", {"3 down to 1", "must be the smaller one"});
  expect_list_refused("n[1-[2-3]]", {"character 5", "number"});
  expect_list_refused("n[1[2]]", {"character 4", "nested brackets"});
  expect_list_refused(std::string("n\0", 2), {"\"n?\"", "not allowed in a host name"});
}

TEST(HostList, is_bounded_before_memory_is_allocated) {
  EXPECT_EQ(expand_hostlist("n[1-65536]").size(), 65536U);
  expect_list_refused("n[0-65536]", {"more than 65536 hosts"});
  expect_list_refused("n[1-999999999]", {"more than 65536 hosts"});
  expect_list_refused("n[1-9999999999]", {"more than 9 digits"});
  expect_list_refused("a[1-1000]b[1-1000]", {"more than 65536 hosts"});
  expect_list_refused("a[1-40000],b[1-40000]", {"more than 65536 hosts"});
  expect_list_refused("a[1-40000,1-40000]", {"more than 65536 hosts"});
  EXPECT_EQ(expand_hostlist(std::string(255, 'a')).size(), 1U);
  expect_list_refused(std::string(256, 'a'), {"more than 255 characters"});
}

TEST(TasksPerNode, repeats_what_is_in_parentheses) {
  EXPECT_EQ(expand_tasks_per_node("3(x2),2,1"), (std::vector<int>{3, 3, 2, 1}));
  EXPECT_EQ(expand_tasks_per_node("128"), (std::vector<int>{128}));
}

TEST(TasksPerNode, errors_give_position_and_reason) {
  const auto refused = [](const std::string& text, std::initializer_list<std::string> parts) {
    SCOPED_TRACE(text);
    test::expect_error(Code::invalid_argument, parts, [&] { (void)expand_tasks_per_node(text); });
  };
  refused("", {"expand_tasks_per_node", "its end", "number"});
  refused("2,", {"its end", "number"});
  refused("0", {"number of tasks is 0"});
  refused("-1", {"number"});
  refused("2(2)", {"character 3", "3(x2)"});
  refused("2(x0)", {"number of nodes is 0"});
  refused("2(x2", {"its end", "expected )"});
  refused("2 3", {"character 2", "comma"});
  refused("1(x65537)", {"more than 65536 nodes"});
  refused("1(x65536),1", {"more than 65536 nodes"});
  refused("1(x9999999999)", {"more than 9 digits"});
}

}  // namespace
}  // namespace lockstep
