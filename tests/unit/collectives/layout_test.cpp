// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One sum, many layouts: every way of dealing replicas to ranks gives the oracle's bits.

#include "support/function_ref.hpp"
#include "support/op_cases.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

namespace lockstep::test {
namespace {

/// All ways to write `replicas` as an ordered sum of `ranks` positive numbers.
void for_each_split(int replicas, int ranks, std::vector<int>& counts, FunctionRef<void()> visit) {
  if (ranks == 1) {
    counts.push_back(replicas);
    visit();
    counts.pop_back();
    return;
  }
  for (int first = 1; first <= replicas - ranks + 1; ++first) {
    counts.push_back(first);
    for_each_split(replicas - first, ranks - 1, counts, visit);
    counts.pop_back();
  }
}

/// The splits are dealt to as many ranks as the machine can bear: a communicator per split costs threads, so ranks are
/// driven by a fixed set of threads, rank p of every split by thread p.
int check_every_split(int replicas) {
  const auto ops = every_op(replicas);
  const int most_ranks = std::min(replicas, 6);
  constexpr std::size_t most_at_once = 1000;  // each communicator takes a hundred kilobytes per rank
  std::vector<std::vector<Communicator>> splits;
  std::vector<int> counts;
  std::atomic<int> wrong{0};
  const auto check = [&] {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(most_ranks); ++rank) {
      threads.emplace_back([&, rank] {
        for (auto& split : splits) {
          if (rank >= split.size()) continue;
          for (const OpCase& op : ops) wrong += wrong_results(split[rank], op, {});
        }
      });
    }
  };
  int checked = 0;
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    for_each_split(replicas, ranks, counts, [&] {
      std::vector<CommunicatorOptions> options(counts.size());
      for (std::size_t p = 0; p < counts.size(); ++p) {
        options[p].local_replicas = counts[p];
        // a thread waits in its first split until the others have been through all smaller ones
        options[p].warn_after = options[p].fail_after = std::chrono::minutes(30);
      }
      splits.push_back(thread_communicators(options));
      ++checked;
      if (splits.size() < most_at_once) return;
      check();
      splits.clear();
    });
  }
  check();
  EXPECT_EQ(wrong.load(), 0) << replicas << " replicas";
  return checked;
}

int check_splits_of(int least, int most) {
  int splits = 0;
  for (int replicas = least; replicas <= most; ++replicas) splits += check_every_split(replicas);
  return splits;
}

/// The splits of few replicas show the same code.
TEST(EverySplit, gives_the_bits_of_the_canonical_tree) {
  EXPECT_EQ(check_splits_of(1, is_quick() ? 6 : 10), is_quick() ? 63 : 847);
}

TEST(EverySplit, of_many_replicas_gives_the_bits_of_the_canonical_tree) { EXPECT_EQ(check_splits_of(11, 14), 5'628); }

/// With those above all 21,777 of up to 17 replicas.
TEST(EverySplit, of_the_most_replicas_gives_the_bits_of_the_canonical_tree) {
  EXPECT_EQ(check_splits_of(15, 17), 15'302);
}

TEST(EverySplit, would_notice_another_order_of_additions) {
  const auto leaves = all_leaves({DType::f32, 1000}, 0, 5);
  EXPECT_NE(canonical_reduce(ReduceOp::sum, DType::f32, leaves),
            left_fold(ReduceOp::sum, DType::f32, all_leaves({DType::f32, 1000}, 0, 8)));
  const auto eight = all_leaves({DType::f32, 1000}, 0, 8);
  EXPECT_NE(canonical_reduce(ReduceOp::sum, DType::f32, eight), left_fold(ReduceOp::sum, DType::f32, eight));
}

}  // namespace
}  // namespace lockstep::test
