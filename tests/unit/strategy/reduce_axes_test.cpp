// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions by the name of the operation, and along several axes.

#include "unit/strategy/strategies.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

TEST(ReduceByName, takes_sum_and_mean_in_any_case_of_letters) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Floats> x({{0, 1, 2, 3}, {4, 5, 6, 7}});
  EXPECT_EQ(strategy.reduce("sum", x), (Floats{4, 6, 8, 10}));
  EXPECT_EQ(strategy.reduce(std::string("SUM"), x), (Floats{4, 6, 8, 10}));
  EXPECT_EQ(strategy.reduce("Mean", x), (Floats{2, 3, 4, 5}));
  EXPECT_EQ(strategy.run([](ReplicaContext& r) { return r.all_reduce("Sum", 1.0F); }).component(1), 2.0F);
  EXPECT_EQ(strategy.extended().reduce_to("MEAN", x, x).value(), (Floats{2, 3, 4, 5}));
}

TEST(ReduceByName, refuses_other_operations_with_a_list_of_valid_ones) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<float> x({1, 2});
  expect_error(Code::invalid_argument, {"reduce: ", "\"max\"", "SUM nor MEAN", "ReduceOp::max"},
               [&] { (void)strategy.reduce("max", x); });
  expect_error(Code::invalid_argument, {"all_reduce: ", "\"MAX\""},
               [&] { strategy.run([](ReplicaContext& r) { (void)r.all_reduce("MAX", 1.0F); }); });
  expect_error(Code::invalid_argument, {"batch_reduce_to: ", "\"\""},
               [&] { (void)strategy.extended().batch_reduce_to("", std::vector{std::pair(x, x)}); });
}

TEST(ReduceByName, takes_an_aggregation_that_is_a_reduction) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<float> x({1, 2});
  EXPECT_EQ(strategy.extended().reduce_to(VariableAggregation::sum, x, x).value(), 3.0F);
  EXPECT_EQ(reduce_op_of(VariableAggregation::mean), ReduceOp::mean);
  for (const auto wrong : {VariableAggregation::none, VariableAggregation::only_first_replica}) {
    expect_error(Code::invalid_argument,
                 {"reduce_to: the aggregation " + std::string(to_string(wrong)) + " is not a reduction"},
                 [&] { (void)strategy.extended().reduce_to(wrong, x, x); });
    expect_error(Code::invalid_argument, {"reduce_op_of", "must be sum or mean"}, [&] { (void)reduce_op_of(wrong); });
  }
}

TEST(ReduceByName, propagates_a_wrong_name_to_the_other_ranks) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const bool wrong = strategy.communicator().rank() == 1;
    const auto x = strategy.run([] { return 1.0F; });
    expect_error(wrong ? Code::invalid_argument : Code::unavailable, {"\"median\""},
                 [&] { (void)strategy.reduce(wrong ? "median" : "sum", x); });
    EXPECT_EQ(strategy.reduce("sum", x), 3.0F);
  });
}

TEST(ReduceAxes, may_be_one_several_or_empty) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Tensor> x(
      {tensor({1, 2, 3, 4}, Shape{1, 2, 2}), tensor({5, 6, 7, 8, 9, 10, 11, 12}, Shape{2, 2, 2})});
  EXPECT_EQ(elements_of<float>(strategy.reduce("SUM", x, 0)), (Floats{15, 18, 21, 24}));
  EXPECT_EQ(elements_of<float>(strategy.reduce("MEAN", x, {0, 1})), (Floats{6, 7}));
  EXPECT_EQ(elements_of<float>(strategy.reduce("MEAN", x, {0, -1})), (Floats{5.5, 7.5}));
  EXPECT_EQ(elements_of<float>(strategy.reduce("MEAN", x, std::vector{2, 0, 1})), (Floats{6.5}));
  EXPECT_EQ(strategy.reduce("MEAN", x, {0, 1, 2}).shape(), Shape{});
  const PerReplica<Tensor> even({tensor({1, 2}, Shape{2}), tensor({3, 4}, Shape{2})});
  const std::optional<int> none;
  EXPECT_EQ(elements_of<float>(strategy.reduce("SUM", even, std::nullopt)), (Floats{4, 6}));
  EXPECT_EQ(elements_of<float>(strategy.reduce("MEAN", even, none)), (Floats{2, 3}));
  EXPECT_EQ(strategy.reduce("SUM", PerReplica<Floats>({{1, 2}, {3, 4}}), std::nullopt), (Floats{4, 6}));
}

TEST(ReduceAxes, that_are_empty_at_run_time_reduce_as_without_axes) {
  MirroredStrategy strategy = mirrored(2);
  const Tensor zero = Tensor::from(Floats{-0.0F});
  const Tensor sum = strategy.reduce("SUM", PerReplica<Tensor>({zero, zero}), Axes());
  EXPECT_TRUE(std::signbit(sum.elements<float>()[0]));
  const PerReplica<Tensor> numbers({Tensor::scalar(3), Tensor::scalar(4)});
  EXPECT_EQ(elements_of<int>(strategy.reduce(ReduceOp::max, numbers, Axes(std::nullopt))), (std::vector<int>{4}));
  EXPECT_EQ(elements_of<double>(strategy.reduce("MEAN", numbers, std::vector<int>{})), (std::vector<double>{3.5}));
}

TEST(ReduceAxes, of_a_tree_reduce_every_leaf_in_one_collective) {
  MirroredStrategy strategy = mirrored(2);
  const std::map<std::string, std::tuple<PerReplica<Floats>, PerReplica<Tensor>>> tree{
      {"a",
       {PerReplica<Floats>({{1, 2, 3}, {4}}),
        PerReplica<Tensor>({Tensor::from(std::vector<int>{3, 4}), Tensor::from(std::vector<int>{6})})}}};
  const auto before = strategy.statistics().collectives;
  const auto mean = strategy.reduce("MEAN", tree, 0);
  EXPECT_EQ(strategy.statistics().collectives, before + 1);
  EXPECT_EQ(std::get<0>(mean.at("a")), 2.5F);
  EXPECT_EQ(elements_of<double>(std::get<1>(mean.at("a"))), (std::vector<double>{13.0 / 3.0}));
}

TEST(ReduceAxes, of_empty_replicas_add_nothing_to_sum_and_count) {
  on_workers({2, 2}, [](Strategy& strategy) {
    const auto parts = strategy.run([](ReplicaContext& r) {
      return std::vector<Floats>{{1, 2}, {3}, {4, 5, 6}, {}}[static_cast<std::size_t>(r.replica_id_in_sync_group())];
    });
    // a vector of vectors is not a leaf, so a replica returns one vector
    EXPECT_EQ(strategy.reduce("SUM", parts, 0), 21.0F);
    EXPECT_EQ(strategy.reduce("MEAN", parts, 0), 3.5F);
  });
  MirroredStrategy two = mirrored(2);
  const PerReplica<Tensor> empty({Tensor(DType::f32, Shape{0, 2}), Tensor(DType::f32, Shape{0, 2})});
  const Tensor mean = two.reduce("MEAN", empty, 0);
  EXPECT_EQ(mean.shape(), Shape{2});
  // the canonical NaN: the sign of 0 / 0 depends on the processor
  EXPECT_EQ(std::bit_cast<std::uint32_t>(mean.elements<float>()[1]), 0x7fc00000U);
  const double of_integers =
      two.reduce<double>("MEAN", PerReplica<std::vector<int>>(std::vector<std::vector<int>>(2)), 0);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(of_integers), 0x7ff8000000000000U);
  EXPECT_EQ(elements_of<float>(two.reduce("SUM", empty, 0)), (Floats{0, 0}));
}

TEST(ReduceAxes, of_values_of_other_shapes_name_the_shapes_that_were_given) {
  MirroredStrategy strategy = mirrored(2);
  const auto refused = [&](const Shape& a, const Shape& b) {
    expect_error(
        Code::invalid_argument,
        {"reduce: value has shape " + to_string(b) + " on replica 1 but " + to_string(a) + " on replica 0",
         "the axes that are not reduced must match"},
        [&] { (void)strategy.reduce("SUM", PerReplica<Tensor>({Tensor(DType::f32, a), Tensor(DType::f32, b)}), 0); });
  };
  refused(Shape{2}, Shape{2, 3});
  refused(Shape{2, 3}, Shape{4, 2});
}

TEST(ReduceAxes, that_do_not_exist_or_are_repeated_are_refused) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Tensor> x({tensor({1, 2}, Shape{1, 2}), tensor({3, 4}, Shape{1, 2})});
  expect_error(Code::invalid_argument, {"axis 2", "[1, 2]", "-2 to 1"}, [&] { (void)strategy.reduce("SUM", x, 2); });
  expect_error(Code::invalid_argument, {"axis -1", "twice"}, [&] { (void)strategy.reduce("SUM", x, {1, -1}); });
  const PerReplica<Tensor> scalar({Tensor::scalar(1.0F), Tensor::scalar(2.0F)});
  expect_error(Code::invalid_argument, {"axis is 0", "scalar"}, [&] { (void)strategy.reduce("SUM", scalar, 0); });
  expect_error(Code::invalid_argument, {"shape [2]", "std::nullopt"},
               [&] { (void)strategy.reduce("SUM", PerReplica<Floats>({{1, 2}, {3, 4}}), std::vector<int>{}); });
}

TEST(ReduceAxes, of_values_that_all_replicas_share_have_a_mean_but_no_sum) {
  MirroredStrategy strategy = mirrored(2);
  const Floats plain{1, 2, 3};
  EXPECT_EQ(strategy.reduce("MEAN", plain, 0), 2.0F);
  EXPECT_EQ(strategy.reduce("MEAN", Mirrored<Floats>({plain, plain}), 0), 2.0F);
  const auto variable = strategy.variable<float>(plain);
  EXPECT_EQ(elements_of<float>(strategy.reduce("MEAN", variable, 0)), (Floats{2}));
  expect_error(Code::invalid_argument, {"the sum of a value"}, [&] { (void)strategy.reduce("SUM", plain, 0); });
  OneDeviceStrategy one;
  EXPECT_EQ(one.reduce("SUM", plain, 0), 6.0F);
}

TEST(ReduceAxes, give_the_same_bits_on_every_layout) {
  std::vector<Floats> results(3);
  const std::vector<std::vector<int>> layouts{{3}, {2, 1}, {1, 1, 1}};
  for (std::size_t l = 0; l < layouts.size(); ++l) {
    on_workers(layouts[l], [&](Strategy& strategy) {
      const auto parts = strategy.run([](ReplicaContext& r) {
        const int id = r.replica_id_in_sync_group();
        Floats elements;
        for (int k = 0; k < 6 * (id + 1); ++k)
          elements.push_back(std::sin(static_cast<float>(17 * id + k)) * std::pow(10.0F, static_cast<float>(k % 7)));
        return tensor(elements, Shape{id + 1, 2, 3});
      });
      const Tensor mean = strategy.reduce("MEAN", parts, {0, 2});
      if (strategy.is_chief()) results[l] = elements_of<float>(mean);
    });
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

}  // namespace
}  // namespace lockstep::test
