// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/reproducible.hpp>

#include "support/errors.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

std::vector<double> random_values(std::int64_t count, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> exponent(-20, 20);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(std::exp(exponent(generator)) * (generator() % 2 == 0 ? 1 : -1));
  return values;
}

/// A distribution: the first element of each part, then the number of elements.
std::vector<std::int64_t> parts_of(std::int64_t count, int ranks, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::vector<std::int64_t> bounds{0, count};
  for (int rank = 1; rank < ranks; ++rank)
    bounds.push_back(static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(count + 1)));
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

struct Results {
  double dot = 0;
  double sum = 0;
  double norm = 0;
  double dot_of_floats = 0;
  friend bool operator==(const Results&, const Results&) = default;
};

/// The results of all ranks, which must be equal.
Results results_on(const std::vector<double>& x, const std::vector<double>& y, const std::vector<std::int64_t>& bounds,
                   bool in_reverse) {
  const auto ranks = static_cast<int>(bounds.size()) - 1;
  std::vector<Results> results(static_cast<std::size_t>(ranks));
  const std::vector<float> xf(x.begin(), x.end());
  const std::vector<float> yf(y.begin(), y.end());
  on_ranks(std::vector<int>(static_cast<std::size_t>(ranks), 1), [&](Communicator& comm) {
    const auto part = static_cast<std::size_t>(in_reverse ? ranks - 1 - comm.rank() : comm.rank());
    const std::int64_t offset = bounds[part];
    const auto begin = static_cast<std::size_t>(offset);
    const auto size = static_cast<std::size_t>(bounds[part + 1] - offset);
    const auto here = [&](const auto& all) { return std::span(all).subspan(begin, size); };
    results[static_cast<std::size_t>(comm.rank())] = {
        reproducible::dot(comm, here(x), here(y), offset), reproducible::sum(comm, here(x), offset),
        reproducible::norm(comm, here(x), offset), reproducible::dot(comm, here(xf), here(yf), offset)};
  });
  for (const Results& each : results) EXPECT_EQ(each, results.front());
  return results.front();
}

TEST(Reproducible, has_the_same_bits_for_every_distribution) {
  unsigned seed = 1;
  for (const std::int64_t count : {0, 1, 63, 64, 65, 127, 1000, 4096, 4097, 20'011}) {
    const std::vector<double> x = random_values(count, ++seed);
    const std::vector<double> y = random_values(count, ++seed);
    const Results alone = results_on(x, y, {0, count}, false);
    for (const int ranks : {2, 3, 4, 7}) {
      for (const bool in_reverse : {false, true}) {
        const std::vector<std::int64_t> bounds = parts_of(count, ranks, ++seed);
        EXPECT_EQ(results_on(x, y, bounds, in_reverse), alone) << count << " elements on " << ranks << " ranks";
      }
    }
    std::vector<std::int64_t> even;
    for (int rank = 0; rank <= 5; ++rank) even.push_back(count * rank / 5);
    EXPECT_EQ(results_on(x, y, even, false), alone);
  }
}

TEST(Reproducible, has_a_block_that_many_ranks_share) {
  const std::vector<double> x = random_values(150, 3);
  const Results alone = results_on(x, x, {0, 150}, false);
  EXPECT_EQ(results_on(x, x, {0, 1, 2, 10, 10, 63, 65, 65, 150}, false), alone);
}

TEST(Reproducible, is_accurate) {
  const std::int64_t count = 20'011;
  const std::vector<double> x = random_values(count, 5);
  const std::vector<double> y = random_values(count, 6);
  long double dot = 0;
  long double size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    dot += static_cast<long double>(x[i]) * y[i];
    size += std::abs(static_cast<long double>(x[i]) * y[i]);
  }
  const Results results = results_on(x, y, {0, 7000, count}, false);
  EXPECT_NEAR(results.dot, static_cast<double>(dot), static_cast<double>(size) * 20 * 0x1p-53);
  const std::vector<double> threes(9, 3.0);
  EXPECT_EQ(results_on(threes, threes, {0, 9}, false), (Results{81, 27, 9, 81}));
}

TEST(Reproducible, refuses_parts_that_do_not_follow_one_another) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const std::vector<double> x(10, 1.0);
    for (const std::int64_t second : {9, 11}) {
      const std::string error =
          error_of([&] { static_cast<void>(reproducible::sum(comm, x, comm.rank() == 0 ? 0 : second)); });
      expect_all(error, {"invalid_argument: reproducible::sum: the parts of the ranks must follow one another",
                         "rank 1 has the elements from " + std::to_string(second), "end at 10"});
    }
    EXPECT_EQ(reproducible::sum(comm, x, comm.rank() * 10), 20);  // the communicator still works
  });
}

TEST(Reproducible, tells_the_other_ranks_about_a_wrong_argument) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const std::vector<double> x(10, 1.0);
    const std::vector<double> y(comm.rank() == 1 ? 9 : 10, 1.0);
    const std::string error = error_of([&] { static_cast<void>(reproducible::dot(comm, x, y, comm.rank() * 10)); });
    expect_all(error, {comm.rank() == 1 ? "invalid_argument:" : "unavailable:",
                       "reproducible::dot: x has 10 elements, but y has 9"});
    const std::string negative = error_of([&] { static_cast<void>(reproducible::sum(comm, x, -1)); });
    expect_all(negative, {"invalid_argument: reproducible::sum: offset is -1; it must be at least 0"});
  });
}

TEST(Reproducible, refuses_several_replicas_of_a_rank) {
  on_ranks({1, 2}, [](Communicator& comm) {
    const std::vector<double> x(10, 1.0);
    expect_all(error_of([&] { static_cast<void>(reproducible::sum(comm, x, comm.rank() * 10)); }),
               {"invalid_argument: reproducible::sum: rank 1 has 2 replicas; the call requires one replica per rank"});
  });
}

TEST(Reproducible, differs_from_another_call) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const std::vector<double> x(10, 1.0);
    const std::string error = error_of([&] {
      static_cast<void>(comm.rank() == 0 ? reproducible::sum(comm, x, 0) : reproducible::dot(comm, x, x, 10));
    });
    expect_all(error, {"mismatch:", "rank 0 is in reproducible::sum", "rank 1 is in reproducible::dot"});
  });
}

}  // namespace
}  // namespace lockstep::test
