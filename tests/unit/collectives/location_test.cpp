// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/location.hpp>
#include <lockstep/core/float16.hpp>

#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
double number(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<float>(value);
  }
}

/// The pair that wins, from the definition.
template <class T, class Index>
std::pair<T, Index> winner(const std::vector<std::pair<T, Index>>& pairs, bool is_max) {
  auto best = pairs.front();
  for (const auto& [value, index] : pairs) {
    const double a = number(value);
    const double b = number(best.first);
    const bool is_equal = a == b || (std::isnan(a) && std::isnan(b));
    const bool is_better = !std::isnan(b) && (std::isnan(a) || (is_max ? a > b : a < b));
    if (is_better || (is_equal && index < best.second)) best = {value, index};
  }
  return best;
}

/// Few different values, so that many are equal.
template <class T, class Index>
void compare_with_definition(int ranks, std::int64_t count, bool is_max) {
  std::vector<std::vector<std::pair<T, Index>>> pairs(static_cast<std::size_t>(count));
  std::mt19937 generator(static_cast<unsigned>(count * 100 + ranks));
  for (auto& of_element : pairs) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto drawn = generator() % 7;
      const auto lowest = std::is_unsigned_v<T> ? 0.0F : -3.0F;
      T value = static_cast<T>(static_cast<float>(drawn) + lowest);
      if constexpr (!std::is_integral_v<T>) {
        if (drawn == 6 && generator() % 4 == 0) value = static_cast<T>(static_cast<float>(nan));
      }
      of_element.emplace_back(value, static_cast<Index>(generator() % 50));
    }
  }
  on_ranks(std::vector<int>(static_cast<std::size_t>(ranks), 1), [&](Communicator& comm) {
    std::vector<T> values;
    std::vector<Index> indices;
    for (const auto& of_element : pairs) {
      const auto& [value, index] = of_element[static_cast<std::size_t>(comm.rank())];
      values.push_back(value);
      indices.push_back(index);
    }
    is_max ? maxloc(comm, values, indices) : minloc(comm, values, indices);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto [value, index] = winner(pairs[i], is_max);
      ASSERT_EQ(indices[i], index) << "element " << i << " of " << count << " on " << ranks << " ranks";
      const double expected = number(value);
      const double actual = number(values[i]);
      ASSERT_TRUE(actual == expected || (std::isnan(actual) && std::isnan(expected))) << actual << ' ' << expected;
    }
  });
}

/// Small and large sizes, and those around 2 KiB, where one way of reduction ends and another begins.
template <class T, class Index>
std::vector<std::int64_t> sizes_of(int ranks) {
  const auto last = static_cast<std::int64_t>(2048 / (sizeof(T) + sizeof(Index))) / ranks;
  return {0, 1, 3, 60, last, last + 1, 3000};
}

template <class T, class Index>
void compare_sizes() {
  for (const int ranks : {1, 2, 5}) {
    for (const std::int64_t count : sizes_of<T, Index>(ranks)) {
      compare_with_definition<T, Index>(ranks, count, false);
      compare_with_definition<T, Index>(ranks, count, true);
    }
  }
}

TEST(Location, is_that_of_the_extreme_value) {
  compare_sizes<double, std::int64_t>();
  compare_sizes<float, std::int32_t>();
  compare_sizes<double, double>();
  compare_sizes<float, float>();
  compare_sizes<std::int8_t, std::uint32_t>();
  compare_sizes<std::int16_t, std::int32_t>();
  compare_sizes<std::uint8_t, float>();
  compare_sizes<std::uint64_t, std::uint64_t>();
  compare_sizes<Float16, std::int64_t>();
  compare_sizes<BFloat16, std::int32_t>();
}

TEST(Location, of_one_number_per_rank) {
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    const double error = comm.rank() == 1 ? 7.5 : 2.5;
    EXPECT_EQ(maxloc(comm, error, comm.rank()), (Located<double>{7.5, 1}));
    EXPECT_EQ(minloc(comm, error, 10 - comm.rank()), (Located<double>{2.5, 8}));
    const auto [zero, index] = minloc(comm, comm.rank() == 2 ? -0.0 : 0.0, comm.rank());
    EXPECT_EQ(index, 0);  // zeros are equal
    EXPECT_TRUE(std::signbit(zero));
  });
}

TEST(Location, of_every_excluded_rank_may_be_the_highest_index) {
  on_ranks({1, 1}, [](Communicator& comm) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(minloc(comm, comm.rank() == 0 ? 1 : 2, most), (Located<int>{1, most}));
    for (const std::size_t count : {1U, 5000U}) {
      std::vector<int> values(count, comm.rank());
      std::vector<double> indices(count, comm.rank() == 0 ? 0 : std::numeric_limits<double>::infinity());
      maxloc(comm, values, indices);
      EXPECT_EQ(values.back(), 1);
      EXPECT_TRUE(std::isinf(indices.back()));
    }
  });
}

TEST(Location, refuses_wrong_arguments_on_all_ranks) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::vector<double> values(3, 1.0);
    std::vector<std::int64_t> indices(comm.rank() == 1 ? 2 : 3);
    const auto expect = [&](FunctionRef<void()> call, const std::string& text) {
      expect_all(error_of(call), {comm.rank() == 1 ? "invalid_argument:" : "unavailable:", text});
    };
    expect([&] { minloc(comm, values, indices); }, "minloc: the numbers of values (3) and of indices (2) differ");
    std::vector<std::int64_t> right(3);
    std::vector<std::int8_t> narrow(3);
    expect([&] { maxloc(comm, values, comm.rank() == 1 ? Elements(narrow) : Elements(right)); },
           "maxloc: the indices are i8; they must be i32, i64, u32, u64, f32 or f64");
    const TensorView on_gpu{values.data(), DType::f64, Shape{3}, Device{DeviceKind::gpu, 0}};
    expect([&] { maxloc(comm, comm.rank() == 1 ? Elements(on_gpu) : Elements(values), right); },
           "maxloc: the values are on");
    const TensorView nowhere{nullptr, DType::f64, Shape{3}, Device{}};
    expect([&] { maxloc(comm, comm.rank() == 1 ? Elements(nowhere) : Elements(values), right, {.name = "residual"}); },
           "residual (maxloc): the address of the values is null");
    maxloc(comm, values, right);  // the communicator still works
  });
  on_ranks({2, 1}, [](Communicator& comm) {
    double value = 1;
    expect_all(error_of([&] { static_cast<void>(minloc(comm, value, 0)); }),
               {"invalid_argument: minloc: rank 0 has 2 replicas; the call requires one replica per rank"});
  });
}

TEST(Location, names_calls_that_differ) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::vector<double> values(comm.rank() == 0 ? 1 : 5000);
    std::vector<std::int64_t> indices(values.size());
    expect_all(error_of([&] { minloc(comm, values, indices); }), {"mismatch:", "minloc", "[1]", "[5000]"});
    const std::string other = error_of([&] {
      double value = 1;
      static_cast<void>(comm.rank() == 0 ? minloc(comm, value, 0) : maxloc(comm, value, 0));
    });
    expect_all(other, {"mismatch:", "minloc", "maxloc"});
    float narrow = 1;
    const std::string dtypes = error_of([&] {
      double value = 1;
      std::int32_t index = 1;
      minloc(comm, comm.rank() == 0 ? Elements(value) : Elements(narrow), index);
    });
    expect_all(dtypes, {"mismatch:", "minloc", "f64", "f32"});
    const ReduceOptions named{.name = "residual"};
    const std::string same_name = error_of(
        [&] { static_cast<void>(comm.rank() == 0 ? minloc(comm, 1.0, 0, named) : maxloc(comm, 1.0, 0, named)); });
    expect_all(same_name, {"mismatch:", "residual (minloc)", "residual (maxloc)"});
  });
}

}  // namespace
}  // namespace lockstep::test
