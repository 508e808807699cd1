// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets whose elements have maps and lists, whose keys and lengths belong to the dataset.

#include <lockstep/lockstep.hpp>

#include "input/numbers.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::test {

using NamedTensors = std::map<std::string, Tensor>;
using Nested = std::tuple<std::map<std::string, std::pair<Tensor, NamedTensors>>, Tensor>;

struct Labeled {
  NamedTensors features;
  Tensor label;
};

}  // namespace lockstep::test

template <>
struct lockstep::tree_members<lockstep::test::Labeled> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Labeled::features, &lockstep::test::Labeled::label);
};

namespace lockstep::test {
namespace {

Tensor counted_from(std::int64_t first, std::int64_t count) {
  Numbers result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(first + i);
  return Tensor::from(result);
}

/// Row i is {"x": i, "y": 100 + i}.
Dataset<NamedTensors> x_and_y(std::int64_t count) {
  return Dataset<NamedTensors>::from_tensor_slices({{"x", counted_from(0, count)}, {"y", counted_from(100, count)}});
}

/// The same from a generator.
Dataset<NamedTensors> generated_columns(std::int64_t count, const std::string& second = "y") {
  return Dataset<NamedTensors>::from_generator([=] {
    return [=, i = std::int64_t{0}]() mutable -> std::optional<NamedTensors> {
      if (i == count) return std::nullopt;
      NamedTensors row{{"x", Tensor::scalar(i)}, {second, Tensor::scalar(100 + i)}};
      ++i;
      return row;
    };
  });
}

std::string text_of(const NamedTensors& columns) {
  std::string text;
  for (const auto& [key, tensor] : columns) {
    text += key + ":";
    for (const std::int64_t number : numbers(tensor)) text += " " + std::to_string(number);
    text += "; ";
  }
  return text;
}

std::vector<std::string> texts_of(const Dataset<NamedTensors>& dataset) {
  std::vector<std::string> texts;
  for (const NamedTensors& element : dataset) texts.push_back(text_of(element));
  return texts;
}
using Texts = std::vector<std::string>;

static_assert(ElementTree<NamedTensors> && ElementTree<Nested> && ElementTree<Labeled>);
static_assert(ElementTree<std::vector<Tensor>> && ElementTree<std::list<NamedTensors>>);
static_assert(!ElementTree<std::map<int, Tensor>> && !ElementTree<std::map<std::string, float>>);
static_assert(!ElementTree<std::tuple<NamedTensors, int>> && !ElementTree<std::vector<float>>);
static_assert(std::is_same_v<DistributedIterator<NamedTensors>::Batch, std::map<std::string, PerReplica<Tensor>>>);

TEST(Dictionaries, are_elements_of_datasets_from_slices_tensors_and_generators) {
  EXPECT_EQ(texts_of(x_and_y(2)), (Texts{"x: 0; y: 100; ", "x: 1; y: 101; "}));
  EXPECT_EQ(texts_of(generated_columns(2)), (Texts{"x: 0; y: 100; ", "x: 1; y: 101; "}));
  EXPECT_EQ(texts_of(Dataset<NamedTensors>::from_tensors({{"b", counted_from(0, 2)}})), (Texts{"b: 0 1; "}));
}

TEST(Dictionaries, pass_through_all_transformations) {
  for (const auto& source : {x_and_y(6), generated_columns(6)}) {
    const auto even = [](const NamedTensors& row) { return numbers(row.at("x"))[0] % 2 == 0; };
    const auto rows = source.filter(even).repeat(2).skip(1).take(4).cache().prefetch(1).shard(1, 0);
    EXPECT_EQ(texts_of(rows.batch(3)), (Texts{"x: 2 4 0; y: 102 104 100; ", "x: 2; y: 102; "}));
    EXPECT_EQ(texts_of(source.shuffle(1).batch(6).unbatch()).size(), 6U);
    EXPECT_EQ(texts_of(source.batch(2).map_rows([](NamedTensors columns) {
                columns.erase("x");
                return columns;
              }))[1],
              "y: 102 103; ");
  }
}

TEST(Dictionaries, are_made_and_taken_apart_by_maps_zips_and_numbers) {
  const auto named =
      Dataset<Tensor>::range(3).map([](const Tensor& i) { return std::map<std::string, Tensor>{{"i", i}, {"j", i}}; });
  EXPECT_EQ(texts_of(named.batch(3)), (Texts{"i: 0 1 2; j: 0 1 2; "}));
  EXPECT_EQ(texts_of(named.map([](const NamedTensors& row) { return row; }, {.num_parallel_calls = 2}))[2],
            "i: 2; j: 2; ");
  for (const auto& source : {x_and_y(3), generated_columns(3)}) {
    const auto joined = zip(source, Dataset<Tensor>::range(5), named).batch(2);
    int batches = 0;
    for (const auto& [first, number, second] : joined) {
      EXPECT_EQ(text_of(first), batches == 0 ? "x: 0 1; y: 100 101; " : "x: 2; y: 102; ");
      EXPECT_EQ(text_of(second), batches == 0 ? "i: 0 1; j: 0 1; " : "i: 2; j: 2; ");
      EXPECT_EQ(numbers(number)[0], 2 * batches++);
    }
    EXPECT_EQ(batches, 2);
    for (const auto& [number, row] : source.enumerate())
      EXPECT_EQ(numbers(number), numbers(row.at("x"))) << text_of(row);
  }
}

TEST(Dictionaries, are_nested_to_any_depth) {
  const auto data = Dataset<Nested>::from_tensor_slices(
      {{{"a", {counted_from(0, 4), {{"b", counted_from(10, 4)}, {"c", counted_from(20, 4)}}}},
        {"d", {counted_from(30, 4), {}}}},
       counted_from(40, 4)});
  for (const auto& [outer, last] : data.skip(3).batch(1)) {
    ASSERT_EQ(outer.size(), 2U);
    EXPECT_EQ(numbers(outer.at("a").first), (Numbers{3}));
    EXPECT_EQ(text_of(outer.at("a").second), "b: 13; c: 23; ");
    EXPECT_EQ(numbers(outer.at("d").first), (Numbers{33}));
    EXPECT_TRUE(outer.at("d").second.empty());
    EXPECT_EQ(numbers(last), (Numbers{43}));
  }
  const auto labeled = zip(x_and_y(4), Dataset<Tensor>::range(4)).map([](const std::tuple<NamedTensors, Tensor>& row) {
    return Labeled{std::get<0>(row), std::get<1>(row)};
  });
  for (const Labeled& batch : labeled.batch(4)) EXPECT_EQ(text_of(batch.features), "x: 0 1 2 3; y: 100 101 102 103; ");
}

TEST(Dictionaries, may_have_lists_of_one_length) {
  using Lists = std::tuple<std::vector<Tensor>, std::map<std::string, std::list<Tensor>>>;
  const auto data = Dataset<Lists>::from_tensor_slices(
      {{counted_from(0, 2), counted_from(10, 2)}, {{"a", {counted_from(20, 2)}}, {"b", {}}}});
  for (const auto& [list, map] : data.batch(2)) {
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(numbers(list[1]), (Numbers{10, 11}));
    EXPECT_EQ(numbers(map.at("a").front()), (Numbers{20, 21}));
    EXPECT_TRUE(map.at("b").empty());
  }
  const auto growing = Dataset<Tensor>::range(1, 3).map(
      [](const Tensor& i) { return std::vector<Tensor>(static_cast<std::size_t>(numbers(i)[0]), i); });
  expect_error(Code::invalid_argument,
               {"map: a list in an element has length 2, but in other elements", "it has length 1"}, [&] {
                 for (const auto& element : growing) static_cast<void>(element);
               });
}

TEST(Dictionaries, with_other_keys_are_an_error_that_names_them) {
  const auto renamed = [](std::int64_t from) {
    return [from](const Tensor& i) { return NamedTensors{{"a", i}, {numbers(i)[0] < from ? "b" : "c", i}}; };
  };
  const auto read = [](const auto& dataset) {
    for (const auto& element : dataset) static_cast<void>(element);
  };
  const auto expect_refused = [&](const char* call, const auto& dataset) {
    expect_error(
        Code::invalid_argument,
        {call, "has the keys [\"a\", \"c\"]", "it has [\"a\", \"b\"]", "missing: [\"b\"]", "not expected: [\"c\"]"},
        [&] { read(dataset); });
  };
  for (const auto& source : {Dataset<Tensor>::range(4), stream(4)}) {
    expect_refused("map: ", source.map(renamed(2)));
    expect_refused("map: ", source.map(renamed(2)).batch(4));
    expect_refused("concatenate: ", source.map(renamed(9)).concatenate(source.map(renamed(0))));
    expect_refused("interleave: ", Dataset<Tensor>::range(2).interleave([=](const Tensor& i) {
      return source.map(renamed(numbers(i)[0] == 0 ? 9 : 0));
    }));
  }
  const auto more = [](std::int64_t) {
    return Dataset<NamedTensors>::from_generator([] {
      return [i = 0]() mutable -> std::optional<NamedTensors> {
        NamedTensors row{{"a", Tensor::scalar(i)}};
        if (i++ == 1) row["b"] = Tensor::scalar(i);
        return row;
      };
    });
  };
  expect_error(Code::invalid_argument, {"from_generator: ", "[\"a\", \"b\"]", "not expected: [\"b\"]"},
               [&] { read(more(0)); });
  // keys that are known are compared at once
  const auto other = Dataset<NamedTensors>::from_tensor_slices({{"x", counted_from(0, 2)}});
  expect_error(Code::invalid_argument, {"concatenate: ", "missing: [\"y\"]"},
               [&] { static_cast<void>(x_and_y(2).concatenate(other)); });
  expect_error(Code::invalid_argument, {"from_tensor_slices: an element has no tensors"},
               [] { static_cast<void>(Dataset<NamedTensors>::from_tensor_slices({})); });
  EXPECT_EQ(texts_of(generated_columns(1).concatenate(x_and_y(1))), (Texts{"x: 0; y: 100; ", "x: 0; y: 100; "}));
  EXPECT_EQ(texts_of(x_and_y(1).concatenate(generated_columns(1))), (Texts{"x: 0; y: 100; ", "x: 0; y: 100; "}));
}

TEST(Dictionaries, of_arrays_are_input_of_array_datasets) {
  const std::map<std::string, std::vector<float>> columns{{"height", {1.5F, 2.5F}}, {"weight", {30, 40}}};
  const Dataset<NamedTensors> rows = array_dataset(columns);
  EXPECT_EQ(rows.skip(1).begin()->at("weight").elements<float>()[0], 40);
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto data = strategy.experimental_make_numpy_dataset(
      std::map<std::string, std::tuple<Tensor, std::vector<std::vector<std::int64_t>>>>{
          {"a", {counted_from(0, 4), {{1}, {2}, {3}, {4}}}}});
  for (const auto& batch : strategy.experimental_distribute_dataset(data.batch(4))) {
    const auto& [x, y] = batch.at("a");
    EXPECT_EQ(numbers(x.component(1)), (Numbers{2, 3}));
    EXPECT_EQ(numbers(y.component(1)), (Numbers{3, 4}));
  }
}

TEST(Dictionaries, are_distributed_as_maps_of_components) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  for (const auto& source : {x_and_y(6), generated_columns(6)}) {
    const auto dist = strategy.experimental_distribute_dataset(source.batch(4));
    EXPECT_EQ(to_string(dist.element_spec().at("y").component(1)), "i64[?]");
    std::int64_t sum = 0;
    for (const auto& batch : dist) {
      const auto difference = [](ReplicaContext& replica, const NamedTensors& columns) {
        return replica.has_data() ? numbers(columns.at("y"))[0] - numbers(columns.at("x"))[0] : 0;
      };
      sum += strategy.reduce("SUM", strategy.run(difference, batch));
    }
    EXPECT_EQ(sum, 300);
  }
}

TEST(Dictionaries, give_the_same_batches_on_every_layout_and_after_a_resume) {
  for (const auto& source : {x_and_y(7), generated_columns(7)}) {
    const auto batches = source.batch(4).map([](const NamedTensors& columns) { return columns; });
    const auto whole = input::distribute(batches, {ReplicaLayout({3}), 0});
    const auto part = input::distribute(batches, {ReplicaLayout({2, 1}), 1});
    auto first = whole.iterate();
    static_cast<void>(first.get_next());
    auto second = part.resume(first.position());
    const auto expected = first.get_next();
    const auto found = second.get_next();
    for (const char* const key : {"x", "y"})
      EXPECT_EQ(numbers(found.at(key).component(0)), numbers(expected.at(key).component(2)));
  }
}

TEST(Dictionaries, of_a_rank_without_elements_have_the_keys_of_the_other_ranks) {
  const std::string zero("z\0", 2);
  for (const bool known_length : {true, false}) {
    on_ranks({1, 2}, [&](Communicator& communicator) {
      const auto distributed = input::distribute_from_function(
          [&](const InputContext& context) {
            const std::int64_t count = context.input_pipeline_id() == 0 ? 0 : 3;
            const auto numbers_of = known_length ? Dataset<Tensor>::range(count) : stream(count);
            return numbers_of
                .map([&zero](const Tensor& i) {
                  return std::tuple(std::map<std::string, std::vector<Tensor>>{{"", {i, i}}, {zero, {}}}, i);
                })
                .batch(2);
          },
          communicator);
      int steps = 0;
      for (const auto& [map, number] : distributed) {
        ASSERT_EQ(map.size(), 2U);
        ASSERT_EQ(map.at("").size(), 2U);
        EXPECT_TRUE(map.at(zero).empty());
        const PerReplica<Tensor>& tensor = map.at("")[1];
        if (communicator.rank() == 0) {
          EXPECT_EQ(tensor.value().shape(), (Shape{0}));
          EXPECT_EQ(tensor.value().dtype(), DType::i64);
        } else {
          EXPECT_EQ(numbers(tensor.component(1)), (Numbers{2}));
        }
        ++steps;
      }
      EXPECT_EQ(steps, 1);
    });
  }
}

}  // namespace
}  // namespace lockstep::test
