// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The smaller public methods of the pages, each under its name.

#include "unit/strategy/strategies.hpp"

#include "support/function_ref.hpp"

#include <tuple>
#include <variant>

namespace lockstep::test {
namespace {

std::string log_of(FunctionRef<void()> body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST(Values, from_a_function_are_one_per_replica_and_never_collapsed) {
  MirroredStrategy strategy = mirrored(3);
  const float array[] = {3, 2, 1};
  const auto from_array = strategy.experimental_distribute_values_from_function(
      [&](const ValueContext& context) { return array[context.replica_id_in_sync_group]; });
  EXPECT_EQ(strategy.experimental_local_results(from_array), (std::vector<float>{3, 2, 1}));
  const PerReplica<float> same =
      strategy.experimental_distribute_values_from_function([](const ValueContext&) { return 1.0F; });
  EXPECT_EQ(components(same), (std::vector<float>{1, 1, 1}));
}

TEST(Values, from_a_function_keep_their_container_with_one_replica) {
  OneDeviceStrategy strategy;
  const PerReplica<int> count = strategy.experimental_distribute_values_from_function(
      [](const ValueContext& context) { return context.num_replicas_in_sync; });
  EXPECT_EQ(count.value(), 1);
}

TEST(Values, from_a_function_have_the_global_ids_of_this_ranks_replicas) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const auto values = strategy.experimental_distribute_values_from_function([](const ValueContext& context) {
      return context.replica_id_in_sync_group * 10 + context.num_replicas_in_sync;
    });
    EXPECT_EQ(strategy.experimental_local_results(values),
              strategy.communicator().rank() == 0 ? (std::vector<int>{3, 13}) : (std::vector<int>{23}));
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, values), 39);
  });
}

TEST(Values, from_a_function_can_be_made_in_every_context_of_every_strategy) {
  MirroredStrategy strategy = mirrored(2);
  MirroredStrategy other = mirrored(2);
  const auto make = [&] {
    return components(strategy.experimental_distribute_values_from_function(
        [](const ValueContext& context) { return context.replica_id_in_sync_group; }));
  };
  const Scope scope = other.scope();
  EXPECT_EQ(make(), (std::vector<int>{0, 1}));
  other.run([&] { EXPECT_EQ(make(), (std::vector<int>{0, 1})); });
}

TEST(Names, of_older_versions_are_equivalent) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(components(strategy.experimental_run_v2([](float x) { return 2 * x; }, 3.0F)), (std::vector<float>{6, 6}));
  EXPECT_EQ(
      components(strategy.extended().call_for_each_replica([](float x) { return 2 * x; }, PerReplica<float>({1, 2}))),
      (std::vector<float>{2, 4}));
  EXPECT_FALSE(strategy.extended().experimental_require_static_shapes());
  std::vector<std::vector<std::int64_t>> batches;
  for (const auto& batch : strategy.experimental_distribute_datasets_from_function(
           [](const InputContext&) { return Dataset<Tensor>::range(9).batch(2); })) {
    for (const Tensor& part : components(batch)) batches.push_back(elements_of<std::int64_t>(part));
  }
  EXPECT_EQ(batches, (std::vector<std::vector<std::int64_t>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}, {}}));
}

TEST(Names, in_errors_are_those_of_the_functions_that_were_called) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::failed_precondition, {"distribute_datasets_from_function", "merge_call"}, [&] {
    strategy.run([&] {
      (void)strategy.distribute_datasets_from_function([](const InputContext&) { return Dataset<Tensor>::range(2); });
    });
  });
}

TEST(RunOptions_, for_tpus_are_ignored_with_one_warning) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(log_of([&] { strategy.run([] {}, RunOptions{}); }), "");
  RunOptions options;
  options.experimental_xla_options = XlaOptions{};
  options.experimental_bucketizing_dynamic_shape = true;
  PerReplica<int> result({0});
  const std::string log = log_of([&] { result = strategy.run([](int x) { return x; }, 4, options); });
  EXPECT_EQ(components(result), (std::vector<int>{4, 4}));
  EXPECT_NE(log.find("experimental_xla_options"), std::string::npos) << log;
  EXPECT_NE(log.find("MirroredStrategy ignores"), std::string::npos) << log;
  EXPECT_EQ(log_of([&] { strategy.run([] {}, options); }), "");
  MirroredStrategy another = mirrored(2);
  options = {.experimental_enable_dynamic_batch_size = false};
  EXPECT_NE(log_of([&] { another.run([] {}, options); }).find("experimental_enable_dynamic_batch_size"),
            std::string::npos);
}

TEST(LogicalDevices, return_the_tensor_after_the_checks) {
  OneDeviceStrategy strategy;
  const Tensor x(DType::f32, Shape{1, 1, 1, 1});
  EXPECT_EQ(strategy.experimental_split_to_logical_devices(x, {1, 1, 1, 1}).data(), x.data());
  EXPECT_EQ(strategy.experimental_assign_to_logical_device(x, 0).data(), x.data());
  EXPECT_EQ(strategy.experimental_replicate_to_logical_devices(std::vector<float>{1, 2}), (std::vector<float>{1, 2}));
  strategy.run([&] { EXPECT_EQ(strategy.experimental_assign_to_logical_device(3.0F, 0), 3.0F); });
}

TEST(LogicalDevices, refuse_what_one_device_cannot_do) {
  OneDeviceStrategy strategy;
  const Tensor x(DType::f32, Shape{1, 2, 4, 1});
  const auto split = [&](std::vector<int> parts) {
    return [&x, &strategy, parts] { (void)strategy.experimental_split_to_logical_devices(x, parts); };
  };
  expect_error(Code::invalid_argument, {"experimental_split_to_logical_devices", "8 parts", "1 logical device"},
               split({1, 2, 4, 1}));
  expect_error(Code::invalid_argument, {"2 numbers", "[1, 2, 4, 1]", "each axis"}, split({1, 1}));
  expect_error(Code::invalid_argument, {"axis 2", "3 equal parts", "divide 4"}, split({1, 1, 3, 1}));
  expect_error(Code::invalid_argument, {"axis 0", "0 equal parts"}, split({0, 1, 1, 1}));
  expect_error(Code::invalid_argument, {"experimental_assign_to_logical_device", "logical_device_id 1", "number 0"},
               [&] { (void)strategy.experimental_assign_to_logical_device(x, 1); });
  expect_error(Code::invalid_argument, {"-1"}, [&] { (void)strategy.experimental_assign_to_logical_device(x, -1); });
}

TEST(Resolver, exists_only_for_strategies_of_several_ranks) {
  EXPECT_EQ(mirrored(2).cluster_resolver(), nullptr);
  EXPECT_EQ(OneDeviceStrategy().cluster_resolver(), nullptr);
  EXPECT_EQ(get_strategy().cluster_resolver(), nullptr);
  on_workers({1, 2}, [](Strategy& strategy) {
    ASSERT_NE(strategy.cluster_resolver(), nullptr);
    const ClusterResolver& resolver = *strategy.cluster_resolver();
    EXPECT_EQ(resolver.task_type(), "worker");
    EXPECT_EQ(resolver.task_id(), strategy.communicator().rank());
    EXPECT_EQ(resolver.cluster_spec(), (ClusterSpec{{"worker", {"rank:0", "rank:1"}}}));
  });
  expect_error(Code::invalid_argument, {"rank is 2", "0 to 1"}, [] { ClusterResolver resolver(2, 2); });
}

TEST(Resolver, given_to_a_strategy_must_know_its_ranks) {
  const ClusterSpec spec{{"chief", {"a:1"}}, {"worker", {"b:1"}}};
  on_ranks({1, 2}, [&](Communicator& communicator) {
    const bool is_chief = communicator.rank() == 0;
    const SimpleClusterResolver right(spec, is_chief ? ClusterTask{"chief", 0} : ClusterTask{"worker", 0});
    const MultiWorkerMirroredStrategy strategy(communicator, {.cluster_resolver = right});
    EXPECT_EQ(strategy.cluster_resolver()->master(), is_chief ? "a:1" : "b:1");
    // as without TF_CONFIG
    const MultiWorkerMirroredStrategy plain(communicator, {.cluster_resolver = SimpleClusterResolver(ClusterSpec())});
    EXPECT_EQ(plain.cluster_resolver()->task_id(), communicator.rank());
    EXPECT_EQ(plain.cluster_resolver()->cluster_spec().num_tasks("worker"), 2);
  });
}

/// Every rank passes `resolver`; the first rank that finds an error throws it, and the other may receive it.
void expect_resolver_refused(const ClusterResolver& resolver, std::initializer_list<std::string> parts) {
  on_ranks({1, 1}, [&](Communicator& communicator) {
    try {
      const MultiWorkerMirroredStrategy strategy(communicator, {.cluster_resolver = resolver});
      ADD_FAILURE() << "rank " << communicator.rank() << " has a strategy";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Code::invalid_argument || error.code() == Code::unavailable) << error.what();
      for (const std::string& part : parts) EXPECT_NE(error.text().find(part), std::string::npos) << error.what();
    }
  });
}

TEST(Resolver, that_knows_other_ranks_is_refused_on_all_ranks) {
  const ClusterSpec two{{"worker", {"a:1", "b:1"}}, {"ps", {"c:1"}}};
  // right for rank 0, and wrong for rank 1, which passes the same
  expect_resolver_refused(SimpleClusterResolver(two, {"worker", 0}),
                          {"worker 0, position 0 in the cluster, but its MPI rank is 1"});
  expect_resolver_refused(SimpleClusterResolver(ClusterSpec{{"worker", {"a:1", "b:1", "c:1"}}}, {"worker", 0}),
                          {"3 workers, chief included, but the job has 2 ranks"});
  expect_resolver_refused(SimpleClusterResolver(two, {"ps", 0}), {"the task \"ps\"", "worker or chief"});
  expect_resolver_refused(SimpleClusterResolver(two), {"names no task for this rank", "worker or chief"});
}

TEST(Run, slices_and_merges_variants) {
  MirroredStrategy strategy = mirrored(2);
  using Either = std::variant<PerReplica<int>, float>;
  const auto run = [&](const Either& argument) {
    return strategy.run(
        [](const std::variant<int, float>& either) -> std::variant<int, std::string> {
          if (const int* number = std::get_if<int>(&either)) return 2 * *number;
          return "plain";
        },
        argument);
  };
  EXPECT_EQ(components(std::get<0>(run(PerReplica<int>({1, 2})))), (std::vector<int>{2, 4}));
  EXPECT_EQ(std::get<1>(run(1.5F)).component(1), "plain");
  expect_error(Code::invalid_argument, {"variant", "same structure"}, [&] {
    (void)strategy.run([](ReplicaContext& replica) -> std::variant<int, float> {
      if (replica.local_replica() == 0) return 1;
      return 1.5F;
    });
  });
}

TEST(Run, keeps_empty_results_empty) {
  MirroredStrategy strategy = mirrored(2);
  const std::tuple<std::monostate, PerReplica<int>> result = strategy.run(
      [](ReplicaContext& replica) { return std::tuple(std::monostate(), replica.replica_id_in_sync_group()); });
  EXPECT_EQ(components(std::get<1>(result)), (std::vector<int>{0, 1}));
}

TEST(Run, moves_the_value_of_one_replica_out) {
  OneDeviceStrategy strategy;
  const auto value = strategy.run([] { return std::make_unique<int>(5); });
  EXPECT_EQ(*value, 5);
  const auto values = mirrored(6).run([](ReplicaContext& replica) { return replica.local_replica(); });
  EXPECT_EQ(components(values), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace lockstep::test
