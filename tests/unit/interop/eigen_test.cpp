// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/expect_error.hpp"

#include <lockstep/interop/eigen.hpp>

#include <Eigen/Core>

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <concepts>
#include <span>
#include <utility>

namespace lockstep {
namespace {

using test::expect_error;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class M>
concept Viewable = requires(M&& matrix) { view_of(std::forward<M>(matrix)); };

TEST(Eigen, a_vector_has_one_axis) {
  Eigen::VectorXf vector(5);
  const TensorView view = view_of(vector);
  EXPECT_EQ(view.data, vector.data());
  EXPECT_EQ(view.dtype, DType::f32);
  EXPECT_EQ(view.shape, (Shape{5}));
  EXPECT_EQ(view.device, Device{});
  Eigen::RowVector3i row;
  EXPECT_EQ(view_of(row).shape, (Shape{3}));
  EXPECT_EQ(view_of(row).dtype, DType::i32);
}

TEST(Eigen, a_matrix_has_the_shape_of_its_memory) {
  Eigen::MatrixXd columns(3, 2);
  EXPECT_EQ(view_of(columns).shape, (Shape{2, 3}));
  EXPECT_EQ(view_of(columns).dtype, DType::f64);
  RowMajor rows(3, 2);
  EXPECT_EQ(view_of(rows).shape, (Shape{3, 2}));
  EXPECT_EQ(view_of(columns.transpose()).shape, (Shape{2, 3}));
  Eigen::Matrix<bool, 1, 1> one;
  EXPECT_EQ(view_of(one).shape, (Shape{1}));
  Eigen::ArrayXXf none(0, 4);
  EXPECT_EQ(view_of(none).element_count(), 0);
}

TEST(Eigen, elements_are_written_through_blocks_and_maps) {
  Eigen::MatrixXi matrix = Eigen::MatrixXi::Zero(2, 3);
  const TensorView columns = view_of(matrix.middleCols(1, 2));
  EXPECT_EQ(columns.data, &matrix(0, 1));
  EXPECT_EQ(columns.shape, (Shape{2, 2}));
  EXPECT_EQ(view_of(matrix.col(2)).data, &matrix(0, 2));
  std::array<double, 6> memory{};
  Eigen::Map<Eigen::MatrixXd> map(memory.data(), 3, 2);
  EXPECT_EQ(view_of(map).data, memory.data());
  Eigen::Ref<Eigen::MatrixXd> reference(map);
  EXPECT_EQ(view_of(reference).data, memory.data());
  Eigen::VectorXf vector(9);
  EXPECT_EQ(view_of(vector.segment(4, 3)).data, vector.data() + 4);
}

TEST(Eigen, elements_of_constants_are_only_read) {
  const Eigen::VectorXf vector(5);
  static_assert(std::same_as<decltype(view_of(vector)), ConstTensorView>);
  static_assert(std::same_as<decltype(view_of(vector.head(2))), ConstTensorView>);
  static_assert(std::same_as<decltype(view_of(std::declval<Eigen::Map<const Eigen::VectorXf>&>())), ConstTensorView>);
  static_assert(std::same_as<decltype(view_of(std::declval<Eigen::VectorXf&>())), TensorView>);
  EXPECT_EQ(view_of(vector).data, vector.data());
}

TEST(Eigen, elements_with_gaps_are_refused) {
  Eigen::MatrixXd matrix(3, 4);
  expect_error(Code::invalid_argument, {"view_of", "1 x 4 elements", "strides 3", "contiguous"},
               [&] { static_cast<void>(view_of(matrix.row(0))); });
  expect_error(Code::invalid_argument, {"view_of", "2 x 2 elements", "strides 1 and 3", "contiguous"},
               [&] { static_cast<void>(view_of(matrix.topLeftCorner(2, 2))); });
  expect_error(Code::invalid_argument, {"3 x 1 elements", "strides 4"},
               [&] { static_cast<void>(view_of(matrix.diagonal())); });
  EXPECT_EQ(view_of(matrix.topLeftCorner(2, 1)).shape, (Shape{1, 2}));  // in one column
  Eigen::RowVectorXd row(4);
  EXPECT_EQ(view_of(row.row(0)).shape, (Shape{4}));
}

TEST(Eigen, what_has_no_elements_in_memory_does_not_compile) {
  using Sum = decltype(std::declval<Eigen::VectorXf&>() + std::declval<Eigen::VectorXf&>());
  static_assert(!Viewable<Sum> && !Viewable<Sum&>);
  static_assert(!Viewable<Eigen::VectorXf>, "a temporary");
  static_assert(!Viewable<Eigen::VectorXcf&>, "a type without a DType");
  static_assert(Viewable<Eigen::VectorXf&> && Viewable<std::span<float>>);
  static_assert(!Viewable<int&>);
}

}  // namespace
}  // namespace lockstep
