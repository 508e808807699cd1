// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/array_dataset.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <list>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep::test {

struct Sample {
  Tensor image;
  Tensor label;
};
struct Columns {
  std::vector<float> height;
  std::vector<std::int32_t> age;
};

}  // namespace lockstep::test

template <>
struct lockstep::tree_members<lockstep::test::Sample> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Sample::image, &lockstep::test::Sample::label);
};
template <>
struct lockstep::tree_members<lockstep::test::Columns> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Columns::height, &lockstep::test::Columns::age);
};

namespace lockstep::test {
namespace {

Tensor matrix(std::vector<float> elements, std::int64_t rows) {
  const auto columns = static_cast<std::int64_t>(elements.size()) / rows;
  return Tensor::from(elements).reshaped(Shape{rows, columns});
}

template <class T>
std::vector<T> listed(const Tensor& tensor) {
  const auto elements = tensor.elements<T>();
  return {elements.begin(), elements.end()};
}

TEST(ArrayDataset, of_one_array_gives_its_rows) {
  std::vector<float> seen;
  for (const Tensor& row : array_dataset(std::vector<float>{1, 2, 3})) {
    EXPECT_EQ(row.shape(), Shape{});
    seen.push_back(row.elements<float>().front());
  }
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(array_dataset(matrix({1, 2, 3, 4}, 2)).cardinality().count(), 2);
}

TEST(ArrayDataset, of_a_tree_gives_trees_of_rows) {
  const auto data = array_dataset(
      std::tuple(matrix({1, 2, 3, 4}, 2), std::pair(std::vector<int>{7, 8}, std::array<double, 2>{0.5, 1.5})));
  int row = 0;
  for (const auto& [x, labels] : data) {
    EXPECT_EQ(listed<float>(x), row == 0 ? (std::vector<float>{1, 2}) : (std::vector<float>{3, 4}));
    EXPECT_EQ(labels.first.elements<int>().front(), 7 + row);
    EXPECT_EQ(labels.second.elements<double>().front(), 0.5 + row);
    ++row;
  }
  EXPECT_EQ(row, 2);
}

TEST(ArrayDataset, keeps_an_aggregate_of_tensors_and_gives_the_members_of_another) {
  const Dataset<Sample> samples = array_dataset(Sample{matrix({1, 2}, 2), Tensor::from(std::vector<int>{3, 4})});
  EXPECT_EQ(samples.cardinality().count(), 2);
  const Dataset<std::tuple<Tensor, Tensor>> columns = array_dataset(Columns{{1.5F, 2.5F}, {30, 40}});
  EXPECT_EQ(std::get<1>(*columns.skip(1).begin()).elements<std::int32_t>().front(), 40);
}

TEST(ArrayDataset, stacks_a_list_of_arrays) {
  const auto data = array_dataset(std::list<std::vector<float>>{{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(data.cardinality().count(), 3);
  EXPECT_EQ(listed<float>(*data.skip(2).begin()), (std::vector<float>{5, 6}));
  const auto deeper = array_dataset(std::vector<std::vector<std::vector<int>>>{{{1}, {2}}, {{3}, {4}}});
  EXPECT_EQ((*deeper.begin()).shape(), (Shape{2, 1}));
}

TEST(ArrayDataset, refuses_arrays_of_different_shapes) {
  expect_error(Code::invalid_argument, {"array_dataset", "array 1", "[3]", "[2]", "tuple"},
               [] { (void)array_dataset(std::vector<std::vector<float>>{{1, 2}, {1, 2, 3}}); });
  expect_error(Code::invalid_argument, {"array_dataset", "empty"},
               [] { (void)array_dataset(std::vector<std::vector<float>>{}); });
  EXPECT_THROW((void)array_dataset(std::tuple(std::vector<float>{1, 2}, std::vector<int>{1})), Error);
  EXPECT_THROW((void)array_dataset(1.5F), Error);
}

}  // namespace
}  // namespace lockstep::test
