// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/complex.hpp>

#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <span>
#include <type_traits>
#include <vector>

namespace lockstep::test {
namespace {

TEST(Complex, numbers_are_viewed_as_pairs) {
  std::vector<std::complex<double>> numbers{{1, 2}, {3, 4}, {5, 6}};
  const TensorView view = view_as_real(numbers);
  EXPECT_EQ(view.data, numbers.data());
  EXPECT_EQ(view.dtype, DType::f64);
  EXPECT_EQ(view.shape, (Shape{3, 2}));
  EXPECT_EQ(static_cast<const double*>(view.data)[3], 4);

  const std::array<std::complex<float>, 2> constant{};
  static_assert(std::is_same_v<decltype(view_as_real(constant)), ConstTensorView>);
  static_assert(std::is_same_v<decltype(view_as_real(std::span(constant))), ConstTensorView>);
  EXPECT_EQ(view_as_real(constant).dtype, DType::f32);

  std::complex<float> number;
  EXPECT_EQ(view_as_real(number).shape, (Shape{1, 2}));
  EXPECT_EQ(view_as_real(std::span(&number, 0)).element_count(), 0);
}

TEST(Complex, numbers_are_added_and_moved_between_ranks) {
  using Complex = std::complex<float>;
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    const auto rank = static_cast<float>(comm.rank());
    std::vector<Complex> numbers{{rank, 1}, {2, -rank}};
    std::vector<Complex> all(6);
    comm.all_gather(view_as_real(numbers), view_as_real(all));
    comm.all_reduce(view_as_real(numbers), ReduceOp::sum);
    EXPECT_EQ(numbers, (std::vector<Complex>{{3, 3}, {6, -3}}));
    EXPECT_EQ(all, (std::vector<Complex>{{0, 1}, {2, 0}, {1, 1}, {2, -1}, {2, 1}, {2, -2}}));
  });
}

}  // namespace
}  // namespace lockstep::test
