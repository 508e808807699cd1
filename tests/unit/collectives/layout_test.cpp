// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One sum, many layouts: every way of dealing replicas to ranks gives the oracle's bits.

#include "support/batch.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

namespace lockstep::test {
namespace {

/// Every dtype, in sizes from nothing to several slices.
std::vector<TensorCase> every_dtype() {
  std::vector<TensorCase> tensors;
  for (int d = 0; d < dtype_count; ++d) tensors.push_back({static_cast<DType>(d), 1 + (d * 37) % 90});
  tensors.push_back({DType::f32, 0});
  return tensors;
}

std::vector<TensorCase> without_bool(std::vector<TensorCase> tensors) {
  std::erase_if(tensors, [](const TensorCase& tensor) { return tensor.dtype == DType::boolean; });
  return tensors;
}

std::vector<TensorCase> without_floats(std::vector<TensorCase> tensors) {
  std::erase_if(tensors, [](const TensorCase& tensor) { return is_floating_point(tensor.dtype); });
  return tensors;
}

struct OpCase {
  ReduceOp op;
  std::vector<TensorCase> tensors;
};

std::vector<OpCase> every_op() {
  return {{ReduceOp::sum, without_bool(every_dtype())},
          {ReduceOp::mean, without_bool(every_dtype())},
          {ReduceOp::min, every_dtype()},
          {ReduceOp::max, every_dtype()},
          {ReduceOp::prod, without_bool(every_dtype())},
          {ReduceOp::band, without_floats(every_dtype())},
          {ReduceOp::bor, without_floats(every_dtype())},
          {ReduceOp::bxor, without_floats(every_dtype())}};
}

/// Expected results, computed once per number of replicas.
std::vector<std::vector<Bytes>> oracle(const std::vector<OpCase>& ops, int replicas) {
  std::vector<std::vector<Bytes>> expected;
  for (const OpCase& op : ops) {
    auto& results = expected.emplace_back();
    for (std::size_t i = 0; i < op.tensors.size(); ++i) {
      results.push_back(reduced(op.op, op.tensors[i], i, replicas));
    }
  }
  return expected;
}

/// All ways to write `replicas` as an ordered sum of `ranks` positive numbers.
void for_each_split(int replicas, int ranks, std::vector<int>& counts, const std::function<void()>& visit) {
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

/// One round of every op on one rank; the number of wrong results.
int wrong_results(Communicator& comm, const std::vector<OpCase>& ops, const std::vector<std::vector<Bytes>>& expected) {
  int wrong = 0;
  for (std::size_t o = 0; o < ops.size(); ++o) {
    Batch batch(ops[o].tensors, comm.layout(), comm.rank());
    for (std::size_t i = 0; i < ops[o].tensors.size(); ++i) {
      batch.add_output(i, result_dtype(ops[o].op, ops[o].tensors[i].dtype), ops[o].tensors[i].count);
    }
    comm.all_reduce(batch.items(), ops[o].op);
    for (std::size_t i = 0; i < ops[o].tensors.size(); ++i) {
      for (const Bytes& result : batch.results(i)) wrong += result != expected[o][i] ? 1 : 0;
    }
  }
  return wrong;
}

/// The splits are dealt to as many ranks as the machine can bear: a communicator per split costs threads, so ranks are
/// driven by a fixed set of threads, rank p of every split by thread p.
int check_every_split(int replicas) {
  const auto ops = every_op();
  const auto expected = oracle(ops, replicas);
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
          if (rank < split.size()) wrong += wrong_results(split[rank], ops, expected);
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
