// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches of datasets whose elements are nests: tuples, pairs and arrays of PerReplica values, and PerReplica
// aggregates.

#include <lockstep/lockstep.hpp>

#include "input/numbers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep::test {

struct LabeledRow {
  Tensor row;
  Tensor label;
};

}  // namespace lockstep::test

template <>
struct lockstep::tree_members<lockstep::test::LabeledRow> {
  static constexpr auto pointers = std::tuple(&lockstep::test::LabeledRow::row, &lockstep::test::LabeledRow::label);
};

namespace lockstep::test {
namespace {

using RowAndLabel = std::tuple<Tensor, Tensor>;

/// Rows 0, 1, ... with labels 10, 11, ...
Dataset<RowAndLabel> labeled(std::int64_t count) {
  return zip(Dataset<Tensor>::range(count), Dataset<Tensor>::range(10, 10 + count));
}

std::int64_t first_of(const Tensor& tensor) { return tensor.shape()[0] == 0 ? -1 : numbers(tensor).front(); }

static_assert(std::is_same_v<DistributedIterator<Tensor>::Batch, PerReplica<Tensor>>);
static_assert(
    std::is_same_v<DistributedIterator<RowAndLabel>::Batch, std::tuple<PerReplica<Tensor>, PerReplica<Tensor>>>);
static_assert(std::is_same_v<DistributedIterator<LabeledRow>::Batch, PerReplica<LabeledRow>>);
static_assert(std::is_same_v<DistributedIterator<std::array<Tensor, 2>>::Batch, std::array<PerReplica<Tensor>, 2>>);
static_assert(std::is_same_v<DistributedIterator<std::pair<Tensor, RowAndLabel>>::Batch,
                             std::pair<PerReplica<Tensor>, std::tuple<PerReplica<Tensor>, PerReplica<Tensor>>>>);

TEST(NestedBatches, of_tuples_are_taken_apart_and_passed_to_run_as_several_arguments_or_as_one) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto dist = strategy.experimental_distribute_dataset(labeled(6).batch(4));
  const auto difference = [](const Tensor& x, const Tensor& y) { return first_of(y) - first_of(x); };
  std::int64_t sum = 0;
  for (auto [x, y] : dist) sum += strategy.reduce("SUM", strategy.run(difference, x, y));
  EXPECT_EQ(sum, 10 + 10 + 10 + 0);
  sum = 0;
  const auto of_a_tuple = [&](const RowAndLabel& batch) { return std::apply(difference, batch); };
  for (const auto& batch : dist) sum += strategy.reduce("SUM", strategy.run(of_a_tuple, batch));
  EXPECT_EQ(sum, 10 + 10 + 10 + 0);
}

TEST(NestedBatches, of_several_depths_have_the_rows_of_each_replica_in_every_leaf) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto nested = labeled(4).batch(4).map([](const RowAndLabel& batch) {
    const auto& [x, y] = batch;
    return std::pair(std::array{x, y}, std::tuple(y, std::pair(x, y)));
  });
  const auto [first, second] = strategy.experimental_distribute_dataset(nested).iterate().get_next();
  EXPECT_EQ(numbers(first[0].component(1)), (Numbers{2, 3}));
  EXPECT_EQ(numbers(first[1].component(0)), (Numbers{10, 11}));
  EXPECT_EQ(numbers(std::get<0>(second).component(1)), (Numbers{12, 13}));
  EXPECT_EQ(numbers(std::get<1>(second).second.component(1)), (Numbers{12, 13}));
}

TEST(NestedBatches, without_rows_leave_a_replica_without_data) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  auto iterator = strategy.experimental_distribute_dataset(labeled(6).batch(4)).iterate();
  const auto has_data = [](ReplicaContext& replica, const auto&...) { return replica.has_data(); };
  const auto full = iterator.get_next();
  EXPECT_TRUE(strategy.run(has_data, full).component(1));
  const auto last = iterator.get_next();
  const auto& [x, y] = last;
  EXPECT_TRUE(strategy.run(has_data, last).component(0));
  EXPECT_FALSE(strategy.run(has_data, last).component(1));
  EXPECT_FALSE(strategy.run(has_data, x, y).component(1));
  EXPECT_FALSE(strategy.run(has_data, std::get<0>(full), y).component(1)) << "an argument without rows";
  EXPECT_TRUE(strategy.run(has_data, std::pair(std::get<0>(full), y)).component(1)) << "an argument with some rows";
}

TEST(NestedBatches, have_a_spec_of_the_same_structure) {
  const auto full = labeled(8).batch(4, {.drop_remainder = true});
  const auto [x, y] = input::distribute(full, {ReplicaLayout({1, 2}), 1}).element_spec();
  EXPECT_EQ(x.first_replica(), 1);
  EXPECT_EQ(to_string(x.component(0)) + " " + to_string(y.component(1)), "i64[1] i64[1]");
  const auto mixed = labeled(8).map([](const RowAndLabel& element) {
    return std::pair(element, LabeledRow{Tensor(DType::f32, Shape{3}), Tensor::scalar(std::uint8_t{1})});
  });
  const auto spec = input::distribute(mixed.batch(4), {ReplicaLayout({2}), 0}).element_spec();
  EXPECT_EQ(to_string(std::get<1>(spec.first).component(1)), "i64[?]");
  const auto& [row, label] = spec.second.component(1);
  EXPECT_EQ(to_string(row) + " " + to_string(label), "f32[?, 3] u8[?]");
}

TEST(NestedBatches, of_aggregates_are_aggregates_with_their_names) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto rows = labeled(6).map([](const RowAndLabel& element) {
    return LabeledRow{.row = std::get<0>(element), .label = std::get<1>(element)};
  });
  std::int64_t sum = 0;
  for (const auto& batch : strategy.experimental_distribute_dataset(rows.batch(4))) {
    sum += strategy.reduce(
        "SUM", strategy.run([](const LabeledRow& part) { return first_of(part.label) - first_of(part.row); }, batch));
  }
  EXPECT_EQ(sum, 10 + 10 + 10 + 0);
}

TEST(NestedBatches, of_iterators_of_v1_are_nests_too) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  auto divided = strategy.make_dataset_iterator(labeled(4).batch(4));
  auto whole = strategy.make_input_fn_iterator([](const InputContext&) { return labeled(4).batch(2); });
#pragma GCC diagnostic pop
  for (auto* iterator : {&divided, &whole}) {
    iterator->initialize();
    const auto [x, y] = iterator->get_next();
    EXPECT_EQ(numbers(x.component(1)), (Numbers{2, 3}));
    EXPECT_EQ(numbers(y.component(0)), (Numbers{10, 11}));
  }
}

TEST(NestedBatches, from_a_function_are_nests_with_empty_leaves_at_the_end) {
  test::on_ranks({1, 1}, [](Communicator& communicator) {
    const auto distributed = input::distribute_from_function(
        [](const InputContext& context) { return labeled(context.input_pipeline_id() == 0 ? 4 : 2).batch(2); },
        communicator);
    auto iterator = distributed.iterate();
    static_cast<void>(iterator.get_next());
    const auto [x, y] = iterator.get_next();
    const Numbers none;
    EXPECT_EQ(numbers(x.value()), communicator.rank() == 0 ? (Numbers{2, 3}) : none);
    EXPECT_EQ(numbers(y.value()), communicator.rank() == 0 ? (Numbers{12, 13}) : none);
  });
}

}  // namespace
}  // namespace lockstep::test
