// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions in cross-replica context.

#include "unit/strategy/strategies.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

TEST(Reduce, gives_a_number_for_numbers_a_vector_for_vectors_and_a_tensor_for_tensors) {
  MirroredStrategy strategy = mirrored(3);
  const float sum = strategy.reduce(ReduceOp::sum, PerReplica<float>({1, 2, 6}));
  EXPECT_EQ(sum, 9.0F);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, PerReplica<float>({1, 2, 6})), 3.0F);
  EXPECT_EQ(strategy.reduce(ReduceOp::max, PerReplica<int>({1, 6, 2})), 6);
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, PerReplica<Floats>({{0, 1}, {4, 5}, {1, 1}})), (Floats{5, 7}));
  const Tensor tensor =
      strategy.reduce(ReduceOp::sum, PerReplica<Tensor>({Tensor::scalar(1), Tensor::scalar(2), Tensor::scalar(3)}));
  EXPECT_EQ(elements_of<int>(tensor), (std::vector<int>{6}));
  Floats a{1}, b{2}, c{3};
  const Floats of_spans = strategy.reduce(ReduceOp::sum, PerReplica<std::span<float>>({a, b, c}));
  EXPECT_EQ(of_spans, (Floats{6}));
}

TEST(Reduce, gives_the_mean_of_integers_in_f64) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(strategy.reduce<double>(ReduceOp::mean, PerReplica<int>({3, 4})), 3.5);
  EXPECT_EQ(strategy.reduce<std::vector<double>>(ReduceOp::mean, PerReplica<std::vector<int>>({{1, 2}, {2, 2}})),
            (std::vector<double>{1.5, 2}));
  EXPECT_EQ(
      elements_of<double>(strategy.reduce(ReduceOp::mean, PerReplica<Tensor>({Tensor::scalar(3), Tensor::scalar(4)}))),
      (std::vector<double>{3.5}));
  expect_error(Code::invalid_argument, {"reduce", "mean of i32 is f64", "reduce<double>"},
               [&] { (void)strategy.reduce(ReduceOp::mean, PerReplica<int>({3, 4})); });
}

TEST(Reduce, of_a_tree_reduces_every_leaf) {
  MirroredStrategy strategy = mirrored(2);
  const std::map<std::string, std::tuple<PerReplica<Floats>, PerReplica<float>>> tree{
      {"a", {PerReplica<Floats>({{1, 2}, {3, 4}}), PerReplica<float>({1, 2})}}};
  const auto sum = strategy.reduce(ReduceOp::sum, tree);
  EXPECT_EQ(std::get<0>(sum.at("a")), (Floats{4, 6}));
  EXPECT_EQ(std::get<1>(sum.at("a")), 3.0F);
}

TEST(Reduce, follows_the_canonical_tree_and_rounds_narrow_types_once) {
  MirroredStrategy five = mirrored(5);
  EXPECT_EQ(five.reduce(ReduceOp::sum, PerReplica<float>({1e8F, 1, -1e8F, 1, 1})), 1.0F);
  EXPECT_TRUE(std::signbit(five.reduce(ReduceOp::sum, PerReplica<float>(std::vector<float>(5, -0.0F)))));
  MirroredStrategy four = mirrored(4);
  const auto bf16 = [](float x) { return BFloat16(x); };
  EXPECT_EQ(float(four.reduce(ReduceOp::sum, PerReplica<BFloat16>({bf16(256), bf16(1), bf16(1), bf16(1)}))), 260.0F);
}

TEST(Reduce, wraps_integers_and_refuses_the_sum_of_bool) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, PerReplica<int>({std::numeric_limits<int>::max(), 1})),
            std::numeric_limits<int>::min());
  expect_error(Code::invalid_argument, {"reduce", "bool", "sum"},
               [&] { (void)strategy.reduce(ReduceOp::sum, PerReplica<bool>({true, false})); });
  EXPECT_TRUE(strategy.reduce(ReduceOp::max, PerReplica<bool>({true, false})));
}

TEST(Reduce, refuses_shapes_that_differ_and_names_them) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(
      Code::invalid_argument,
      {"reduce: value has shape [3] on replica 1 but [2] on replica 0; shapes must match unless axis is given"},
      [&] { (void)strategy.reduce(ReduceOp::sum, PerReplica<Floats>({{1, 2}, {1, 2, 3}})); });
  expect_error(Code::invalid_argument, {"f64 on replica 1", "f32 on replica 0"}, [&] {
    (void)strategy.reduce(ReduceOp::sum, PerReplica<Tensor>({Tensor::scalar(1.0F), Tensor::scalar(1.0)}));
  });
  expect_error(Code::invalid_argument, {"3 components", "2 replicas"},
               [&] { (void)strategy.reduce(ReduceOp::sum, PerReplica<float>({1, 2, 3})); });
}

TEST(Reduce, of_one_shared_value_has_a_mean_but_no_sum) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, 3.0F), 3.0F);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, Mirrored<float>({3, 3})), 3.0F);
  const auto variable = strategy.variable<float>(3.0F);
  EXPECT_EQ(elements_of<float>(strategy.reduce(ReduceOp::mean, variable)), (Floats{3}));
  expect_error(Code::invalid_argument, {"the sum of a plain value"},
               [&] { (void)strategy.reduce(ReduceOp::sum, 3.0F); });
  expect_error(Code::invalid_argument, {"the sum of a mirrored value"},
               [&] { (void)strategy.reduce(ReduceOp::sum, Mirrored<float>({3, 3})); });
  expect_error(Code::invalid_argument, {"the sum of a variable"},
               [&] { (void)strategy.reduce(ReduceOp::sum, variable); });
}

TEST(Reduce, of_one_value_with_one_replica_is_that_value) {
  OneDeviceStrategy one;
  EXPECT_EQ(one.reduce(ReduceOp::sum, 3.0F), 3.0F);
  EXPECT_EQ(get_strategy().reduce(ReduceOp::sum, Floats{1, 2}), (Floats{1, 2}));
  EXPECT_EQ(one.reduce(ReduceOp::sum, std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 0), 45);
  EXPECT_EQ(get_strategy().reduce(ReduceOp::mean, Floats{1, 2, 3}, 0), 2.0F);
}

TEST(OneDeviceReduce, returns_the_value_as_it_is_in_its_type) {
  OneDeviceStrategy one;
  const int mean = one.reduce("MEAN", one.run([] { return 5; }));
  EXPECT_EQ(mean, 5);
  EXPECT_EQ(one.reduce("SUM", std::vector<int>{1, 2}), (std::vector<int>{1, 2}));
  EXPECT_EQ(one.reduce(ReduceOp::prod, std::pair(1, Floats{2, 3})), std::pair(1, Floats{2, 3}));
  EXPECT_EQ(one.reduce<double>("MEAN", std::vector<int>{1, 2}, 0), 1.5);
  EXPECT_EQ(one.reduce<double>("MEAN", 5), 5.0);
  EXPECT_EQ(one.reduce("MEAN", std::map<std::string, PerReplica<int>>{{"k", PerReplica<int>({4})}}),
            (std::map<std::string, int>{{"k", 4}}));
  const auto values = one.experimental_distribute_values_from_function([](const ValueContext&) { return 3; });
  EXPECT_EQ(one.reduce("MEAN", values), 3);
  EXPECT_EQ(one.reduce("MEAN", one.run([](int x) { return 2 * x; }, values)), 6);
  for (const auto& batch : one.experimental_distribute_dataset(Dataset<Tensor>::range(3).batch(3))) {
    EXPECT_EQ(one.reduce("MEAN", batch).dtype(), DType::i64);
    EXPECT_EQ(one.reduce("SUM", one.run([](const Tensor& x) { return x.element_count(); }, batch)), 3);
  }
  const auto variable = one.variable<float>(2.0F);
  EXPECT_EQ(elements_of<float>(one.reduce("SUM", variable)), (Floats{2}));
  EXPECT_EQ(one.experimental_local_results(one.run([] { return 5; })), (std::vector<int>{5}));
  Strategy& general = one;
  EXPECT_EQ(general.reduce("SUM", general.run([] { return 5; })), 5);
}

TEST(OneDeviceReduce, refuses_what_every_strategy_refuses) {
  OneDeviceStrategy one;
  expect_error(Code::invalid_argument, {"reduce", "TOTAL"}, [&] { (void)one.reduce("TOTAL", 1); });
  expect_error(Code::failed_precondition, {"reduce", "replica context"},
               [&] { one.run([&] { (void)one.reduce("SUM", 1); }); });
  expect_error(Code::invalid_argument, {"reduce", "2 components", "1 replica"},
               [&] { (void)one.reduce("SUM", PerReplica<int>({1, 2})); });
}

TEST(ReduceAxis, counts_elements_not_replicas) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Floats> uneven({{5, 6}, {7}});
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, uneven, 0), 18.0F);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, uneven, 0), 6.0F);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, uneven, -1), 6.0F);
  EXPECT_EQ(strategy.reduce<double>(ReduceOp::mean, PerReplica<std::vector<int>>({{3, 4}, {6}}), 0), 13.0 / 3.0);
}

TEST(ReduceAxis, of_tensors_keeps_the_other_axes) {
  MirroredStrategy strategy = mirrored(2);
  const auto tensor = [](const Floats& elements, const Shape& shape) { return Tensor::from(elements).reshaped(shape); };
  const PerReplica<Tensor> x(
      {tensor({1, 2, 3, 4}, Shape{1, 2, 2}), tensor({5, 6, 7, 8, 9, 10, 11, 12}, Shape{2, 2, 2})});
  const Tensor sum = strategy.reduce(ReduceOp::sum, x, 0);
  EXPECT_EQ(sum.shape(), (Shape{2, 2}));
  EXPECT_EQ(elements_of<float>(sum), (Floats{15, 18, 21, 24}));
  EXPECT_EQ(elements_of<float>(strategy.reduce(
                ReduceOp::sum, PerReplica<Tensor>({tensor({1, 2}, Shape{1, 2}), tensor({3, 4}, Shape{1, 2})}), 1)),
            (Floats{10}));
}

TEST(ReduceAxis, of_no_elements_has_sum_zero_and_mean_nan) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Floats> empty(std::vector<Floats>(2));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, empty, 0), 0.0F);
  EXPECT_TRUE(std::isnan(strategy.reduce(ReduceOp::mean, empty, 0)));
  EXPECT_TRUE(strategy.reduce(ReduceOp::sum, empty).empty());
}

TEST(ReduceAxis, of_narrow_floats_adds_in_f32_and_rounds_once) {
  MirroredStrategy strategy = mirrored(2);
  const auto halves = [](std::initializer_list<float> values) {
    std::vector<Float16> result;
    for (const float value : values) result.emplace_back(value);
    return result;
  };
  EXPECT_EQ(float(strategy.reduce(ReduceOp::sum,
                                  PerReplica<std::vector<Float16>>({halves({4096, 1, 1}), halves({1, 1})}), 0)),
            4100.0F);
  EXPECT_EQ(
      float(strategy.reduce(ReduceOp::mean, PerReplica<std::vector<Float16>>({halves({60000}), halves({60000})}), 0)),
      60000.0F);
}

TEST(ReduceAxis, refuses_axes_that_do_not_exist_and_other_ops) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Floats> x({{0, 1}, {2, 3}});
  expect_error(Code::invalid_argument, {"axis 5", "[2]"}, [&] { (void)strategy.reduce(ReduceOp::mean, x, 5); });
  expect_error(Code::invalid_argument, {"axis -2"}, [&] { (void)strategy.reduce(ReduceOp::mean, x, -2); });
  expect_error(Code::invalid_argument, {"axis is 0"}, [&] {
    (void)strategy.reduce(ReduceOp::sum, PerReplica<Tensor>({Tensor::scalar(1.0F), Tensor::scalar(1.0F)}), 0);
  });
  expect_error(Code::invalid_argument, {"max"}, [&] { (void)strategy.reduce(ReduceOp::max, x, 0); });
}

TEST(ReduceTo, puts_a_copy_on_each_device_of_the_destination) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<float> x({1, 2});
  const auto variable = strategy.variable<float>(10.0F);
  const Mirrored<float> on_variable = strategy.extended().reduce_to(ReduceOp::sum, x, variable);
  EXPECT_EQ(on_variable.size(), 2);
  EXPECT_EQ(on_variable.component(1), 3.0F);
  EXPECT_EQ(copies(variable), (std::vector<Floats>{{10}, {10}}));
  EXPECT_EQ(strategy.extended().reduce_to(ReduceOp::sum, x, "cpu:0").size(), 1);
  EXPECT_EQ(strategy.extended().reduce_to(ReduceOp::mean, x, x).value(), 1.5F);
  expect_error(Code::invalid_argument, {"tpu:0"},
               [&] { (void)strategy.extended().reduce_to(ReduceOp::sum, x, "tpu:0"); });
}

TEST(BatchReduceTo, keeps_the_order_in_one_collective) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Tensor> a({Tensor::scalar(1.0F), Tensor::scalar(2.0F)});
  const PerReplica<Tensor> b({Tensor::from(std::vector<int>{1, 2}), Tensor::from(std::vector<int>{3, 4})});
  const auto before = strategy.statistics().collectives;
  const auto sums = strategy.extended().batch_reduce_to(ReduceOp::sum,
                                                        std::vector{std::pair(b, b), std::pair(a, a), std::pair(b, b)});
  EXPECT_EQ(strategy.statistics().collectives, before + 1);
  ASSERT_EQ(sums.size(), 3U);
  EXPECT_EQ(elements_of<int>(sums[0].component(1)), (std::vector<int>{4, 6}));
  EXPECT_EQ(elements_of<float>(sums[1].component(0)), (Floats{3}));
  EXPECT_EQ(elements_of<int>(sums[2].value()), (std::vector<int>{4, 6}));
  EXPECT_TRUE(
      strategy.extended().batch_reduce_to(ReduceOp::sum, std::vector<std::pair<PerReplica<float>, Device>>{}).empty());
}

TEST(LocalResults, are_the_components_in_replica_order) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(strategy.experimental_local_results(PerReplica<int>({3, 4})), (std::vector<int>{3, 4}));
  EXPECT_EQ(strategy.experimental_local_results(5), (std::vector<int>{5}));
  const std::map<std::string, PerReplica<int>> tree{{"a", PerReplica<int>({1, 2})}};
  EXPECT_EQ(strategy.experimental_local_results(tree),
            (std::vector<std::map<std::string, int>>{{{"a", 1}}, {{"a", 2}}}));
  const auto copies_of_variable = strategy.experimental_local_results(strategy.variable<float>(9.0F));
  ASSERT_EQ(copies_of_variable.size(), 2U);
  EXPECT_EQ(elements_of<float>(copies_of_variable[1]), (Floats{9}));
}

TEST(Reduce, of_a_variable_on_read_joins_its_copies_by_the_named_op_whatever_its_aggregation) {
  using Aggregation = VariableAggregation;
  for (const std::vector<int>& counts : {std::vector{3}, std::vector{1, 2}, std::vector{1, 1, 1}}) {
    on_workers(counts, [](Strategy& strategy) {
      for (const auto aggregation : {Aggregation::none, Aggregation::sum, Aggregation::only_first_replica}) {
        const auto variable = strategy.sync_on_read_variable<int>(std::vector<int>{0, 0}, {.aggregation = aggregation});
        strategy.run([&](ReplicaContext& replica) {
          const int id = replica.replica_id_in_sync_group();
          variable.assign(std::vector<int>{id, 10 * id});
        });
        EXPECT_EQ(elements_of<int>(strategy.reduce("SUM", variable)), (std::vector<int>{3, 30}));
        EXPECT_EQ(elements_of<int>(strategy.reduce(ReduceOp::max, variable)), (std::vector<int>{2, 20}));
        EXPECT_EQ(elements_of<double>(strategy.reduce("MEAN", variable)), (std::vector<double>{1, 10}));
        EXPECT_EQ(elements_of<int>(strategy.reduce("SUM", variable, 0)), (std::vector<int>{33}));
        EXPECT_EQ(elements_of<double>(strategy.reduce("MEAN", variable, 0)), (std::vector<double>{5.5}));
        const auto [both, plain] = strategy.reduce("MEAN", std::tuple(variable, Tensor::scalar(7.0F)));
        EXPECT_EQ(elements_of<double>(both), (std::vector<double>{1, 10}));
        EXPECT_EQ(elements_of<float>(plain), (Floats{7}));
      }
    });
  }
}

}  // namespace
}  // namespace lockstep::test
