// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_plan.hpp"

#include <gtest/gtest.h>

#include <map>

namespace lockstep::test {
namespace {

using namespace detail;

std::vector<HostItem> list(std::initializer_list<std::pair<DType, std::int64_t>> tensors) {
  std::vector<HostItem> items;
  for (const auto& [dtype, count] : tensors) items.push_back({dtype, Shape{count}, {}, {}});
  return items;
}

/// Every element is in exactly one slice; places in staging memory do not overlap and stay within the stated sizes.
void check_rounds(const std::vector<HostItem>& items, int ranks, const std::vector<NodeRound>& rounds) {
  ASSERT_FALSE(rounds.empty());
  std::vector<std::map<std::int64_t, std::int64_t>> covered(items.size());
  for (const NodeRound& round : rounds) {
    ASSERT_EQ(round.slices.size(), static_cast<std::size_t>(ranks));
    std::map<std::size_t, std::size_t> inputs;
    for (const auto& slice : round.slices) {
      for (const StagedRange& part : slice) {
        const HostItem& item = items[part.range.item];
        ASSERT_LT(part.range.begin, part.range.end);
        EXPECT_TRUE(covered[part.range.item].emplace(part.range.begin, part.range.end).second);
        const auto count = static_cast<std::size_t>(part.range.end - part.range.begin);
        EXPECT_TRUE(inputs.emplace(part.input_offset, part.input_offset + count * size_of(item.dtype)).second);
        EXPECT_EQ(part.input_offset % 64, 0u);
      }
    }
    std::size_t end = 0;
    for (const auto& [begin, last] : inputs) {
      EXPECT_GE(begin, end);
      end = last;
    }
    EXPECT_LE(end, round.input_bytes);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::int64_t next = 0;
    for (const auto& [begin, end] : covered[i]) {
      EXPECT_EQ(begin, next);
      next = end;
    }
    EXPECT_EQ(next, items[i].count());
  }
}

/// Results of one owner do not overlap and stay within the stated sizes.
void check_results(const std::vector<HostItem>& items, const std::vector<NodeRound>& rounds) {
  for (const NodeRound& round : rounds) {
    for (const auto& slice : round.slices) {
      std::size_t end = 0;
      for (const StagedRange& part : slice) {
        EXPECT_GE(part.result_offset, end);
        EXPECT_EQ(part.result_offset % 64, 0u);
        end = part.result_offset + static_cast<std::size_t>(part.range.end - part.range.begin) *
                                       size_of(result_dtype(ReduceOp::mean, items[part.range.item].dtype));
      }
      EXPECT_LE(end, round.most_result_bytes);
    }
  }
}

TEST(NodePlan, covers_every_element_once) {
  const auto lists = {
      list({}),
      list({{DType::f32, 0}}),
      list({{DType::f32, 1}}),
      list({{DType::i8, 100'000}, {DType::f64, 3}, {DType::f32, 0}, {DType::bf16, 65'537}}),
      list({{DType::f32, 1'000'003}}),
  };
  for (const auto& items : lists) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (const std::size_t bytes :
           {std::size_t{64}, std::size_t{4096}, std::size_t{512} << 10, std::size_t{1} << 60}) {
        const auto rounds = cut_rounds(items, ReduceOp::mean, ranks, bytes);
        check_rounds(items, ranks, rounds);
        check_results(items, rounds);
      }
    }
  }
}

TEST(NodePlan, gives_every_rank_the_parts_of_its_replicas) {
  for (const auto& counts : {std::vector<int>{1}, {1, 1}, {2, 1, 3}}) {
    const ReplicaLayout layout(counts);
    const std::int64_t replicas = layout.replicas();
    const auto items = list({{DType::f32, 0},
                             {DType::i8, 20'000 * replicas},
                             {DType::f64, replicas},
                             {DType::bf16, 65'537 * replicas},
                             {DType::f32, 333 * replicas}});
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{4096}, std::size_t{512} << 10, std::size_t{1} << 60}) {
      const auto rounds = cut_scatter_rounds(items, layout, bytes);
      check_rounds(items, layout.ranks(), rounds);
      for (const NodeRound& round : rounds) {
        for (int owner = 0; owner < layout.ranks(); ++owner) {
          for (const StagedRange& staged : round.slices[static_cast<std::size_t>(owner)]) {
            const std::int64_t part = items[staged.range.item].count() / replicas;
            const std::int64_t replica = staged.range.begin / part;
            EXPECT_GE(replica, layout.first(owner));
            EXPECT_LT(replica, layout.first(owner + 1));
            EXPECT_LE(staged.range.end, part * (replica + 1));
          }
        }
      }
    }
  }
}

TEST(NodePlan, keeps_rounds_within_their_size) {
  const auto items = list({{DType::f32, 300'000}, {DType::f32, 10}, {DType::f64, 100'000}});
  const auto rounds = cut_rounds(items, ReduceOp::sum, 2, 100'000);
  EXPECT_GE(rounds.size(), 20u);
  for (const NodeRound& round : rounds) EXPECT_LE(round.input_bytes, 100'000u + 64 * 8 * 4);
  EXPECT_EQ(cut_rounds(items, ReduceOp::sum, 2, std::size_t{1} << 60).size(), 1u);
}

TEST(NodePlan, gives_small_lists_to_few_owners) {
  const auto owners = [](std::int64_t count) {
    const auto rounds = cut_rounds(list({{DType::f32, count}}), ReduceOp::sum, 8, std::size_t{1} << 60);
    int with_work = 0;
    for (const auto& slice : rounds.front().slices) with_work += slice.empty() ? 0 : 1;
    return with_work;
  };
  EXPECT_EQ(owners(100), 1);
  EXPECT_EQ(owners(1024), 2);
  EXPECT_EQ(owners(100'000), 8);
}

}  // namespace
}  // namespace lockstep::test
