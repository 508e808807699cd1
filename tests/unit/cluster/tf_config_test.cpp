// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/tf_config_cluster_resolver.hpp>

#include "support/expect_error.hpp"
#include "unit/cluster/variables.hpp"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using test::expect_error;
using test::VariableMap;
using test::Variables;

constexpr const char* text_of_worker = R"({"cluster": {"worker": ["a:1", "b:2"], "ps": ["c:3"]},
                                           "task": {"type": "worker", "index": 1}, "environment": "cloud"})";

/// Expects an error that names the place and the reason.
void expect_refused(const std::string& text, std::initializer_list<std::string> parts) {
  SCOPED_TRACE(text);
  expect_error(Code::invalid_argument, {"TF_CONFIG"}, [&] { (void)TFConfigClusterResolver::from_text(text); });
  expect_error(Code::invalid_argument, parts, [&] { (void)TFConfigClusterResolver::from_text(text); });
}

TEST(TFConfig, describes_the_cluster_and_the_task) {
  const Variables set(VariableMap{{"TF_CONFIG", text_of_worker}});
  const TFConfigClusterResolver resolver;
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(resolver.cluster_spec(), (ClusterSpec{{"worker", {"a:1", "b:2"}}, {"ps", {"c:3"}}}));
  EXPECT_EQ(resolver.master(), "b:2");
  EXPECT_EQ(resolver.master("ps", 0), "c:3");
}

TEST(TFConfig, is_an_empty_cluster_if_it_is_not_set) {
  for (const char* text : {"", "{}", R"({"cluster": {}})", R"({"rpc_layer": "grpc"})"}) {
    const Variables set(VariableMap{{"TF_CONFIG", text}});
    const TFConfigClusterResolver resolver;
    EXPECT_TRUE(resolver.cluster_spec().empty()) << text;
    EXPECT_EQ(resolver.task(), ClusterTask{}) << text;
    EXPECT_EQ(resolver.master(), "") << text;
  }
}

TEST(TFConfig, is_overridden_by_options) {
  const auto resolver = TFConfigClusterResolver::from_text(
      text_of_worker, {.task_type = "ps", .task_id = 0, .accelerators = {{"GPU", 2}}});
  EXPECT_EQ(resolver.task(), (ClusterTask{"ps", 0}));
  EXPECT_EQ(resolver.num_accelerators(), (Accelerators{{"GPU", 2}}));
  expect_error(Code::invalid_argument, {"\"ps\" has no task 1"},
               [] { (void)TFConfigClusterResolver::from_text(text_of_worker, {.task_type = "ps"}); });
}

TEST(TFConfig, has_tasks_by_number) {
  const auto resolver = TFConfigClusterResolver::from_text(R"({"cluster": {"worker": {"0": "a:1", "12": "b:1"}}})");
  EXPECT_EQ(resolver.cluster_spec().task_indices("worker"), (std::vector<int>{0, 12}));
  const auto evaluator = TFConfigClusterResolver::from_text(
      R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})");
  EXPECT_EQ(evaluator.task_type(), "evaluator");
  EXPECT_EQ(evaluator.master(), "");
}

TEST(TFConfig, is_written_as_it_is_read) {
  for (const char* text : {text_of_worker, R"({"cluster": {"worker": {"0": "a:1", "12": "b:1"}}})", "{}"}) {
    const auto resolver = TFConfigClusterResolver::from_text(text);
    const auto again = TFConfigClusterResolver::from_text(to_tf_config(resolver));
    EXPECT_EQ(again.cluster_spec(), resolver.cluster_spec());
    EXPECT_EQ(again.task(), resolver.task());
  }
}

TEST(TFConfig, with_invalid_json_is_refused_with_the_position) {
  expect_refused("{cluster: {}}", {"invalid JSON", "byte 2", "\"cluster\": {\"worker\""});
  expect_refused(R"({"cluster": {"worker": ["a:1"})", {"invalid JSON"});
  expect_refused("\"\xff\"", {"invalid JSON"});
  expect_refused(R"({"task": 1e999})", {"invalid JSON", "1e999"});
  expect_refused("[]", {"the document", "it must be an object, but it is of type array"});
  expect_refused("7", {"it must be an object, but it is of type number"});
  expect_refused(R"({"cluster": {"worker": [)" + std::string(100000, '[') + "]}}", {"more than 32 levels"});
}

TEST(TFConfig, with_a_wrong_cluster_is_refused_with_the_place) {
  expect_refused(R"({"cluster": []})", {"cluster", "it must be an object, but it is of type array"});
  expect_refused(R"({"cluster": {"worker": "a:1"}})",
                 {"cluster.\"worker\"", "\"a:1\" is of type string", "list of addresses"});
  expect_refused(R"({"cluster": {"worker": ["a:1", 7]}})", {"cluster.\"worker\"[1]", "7 is of type number"});
  expect_refused(R"({"cluster": {"worker": [""]}})", {"cluster.\"worker\"[0]", "empty"});
  expect_refused(R"({"cluster": {"": ["a:1"]}})", {"cluster", "empty name"});
  expect_refused(R"({"cluster": {"worker": {"one": "a:1"}}})", {"cluster.\"worker\"", "\"one\" is not a task number"});
  expect_refused(R"({"cluster": {"worker": {"-1": "a:1"}}})", {"\"-1\" is not a task number"});
  expect_refused(R"({"cluster": {"worker": {"2147483648": "a:1"}}})", {"0 to 2147483647"});
  expect_refused(R"({"cluster": {"worker": {"1": "a:1", "01": "b:1"}}})", {"task 1 is given twice"});
  expect_refused(R"({"cluster": {"worker": ["a:1"], "worker": ["b:1"]}})", {"\"worker\"", "duplicate member"});
}

TEST(TFConfig, with_a_wrong_task_is_refused_with_the_place) {
  const std::string cluster = R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": )";
  expect_refused(cluster + "\"worker\"}", {"task", "it must be an object, but it is of type string"});
  expect_refused(cluster + R"({"type": 3, "index": 0}})", {"task.type", "3 is not a job name"});
  expect_refused(cluster + R"({"type": "", "index": 0}})", {"task.type", "not a job name"});
  expect_refused(cluster + R"({"type": "worker", "index": "0"}})", {"task.index", "\"0\"", "without quotes"});
  expect_refused(cluster + R"({"type": "worker", "index": 0.5}})", {"task.index", "0.5", "must be an integer"});
  expect_refused(cluster + R"({"type": "worker", "index": -1}})", {"task.index", "-1", "out of range"});
  expect_refused(cluster + R"({"type": "worker", "index": 4294967296}})", {"task.index", "out of range"});
  expect_refused(cluster + R"({"type": "worker", "index": 18446744073709551615}})", {"task.index", "out of range"});
  expect_refused(cluster + R"({"type": "worker"}})", {"task", "\"index\" is missing"});
  expect_refused(cluster + R"({"index": 0}})", {"task", "\"type\" is missing"});
  expect_refused(cluster + R"({"type": "worker", "index": 2}})", {"\"worker\" has no task 2", "a:1, b:1"});
  expect_refused(cluster + R"({"type": "ps", "index": 0}})", {"no job \"ps\"", "worker"});
}

}  // namespace
}  // namespace lockstep
