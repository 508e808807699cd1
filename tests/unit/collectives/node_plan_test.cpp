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

/// Every element is in exactly one slice; staging places do not overlap and stay within what is said.
void check_rounds(const std::vector<HostItem>& items, int ranks, std::size_t round_bytes) {
  const auto rounds = cut_rounds(items, ReduceOp::mean, ranks, round_bytes);
  ASSERT_FALSE(rounds.empty());
  std::vector<std::map<std::int64_t, std::int64_t>> covered(items.size());
  for (const NodeRound& round : rounds) {
    ASSERT_EQ(round.slices.size(), static_cast<std::size_t>(ranks));
    std::map<std::size_t, std::size_t> inputs;
    for (const auto& slice : round.slices) {
      std::size_t result_end = 0;
      for (const StagedPiece& part : slice) {
        const HostItem& item = items[part.piece.item];
        ASSERT_LT(part.piece.begin, part.piece.end);
        EXPECT_TRUE(covered[part.piece.item].emplace(part.piece.begin, part.piece.end).second);
        const auto count = static_cast<std::size_t>(part.piece.end - part.piece.begin);
        EXPECT_TRUE(inputs.emplace(part.input_offset, part.input_offset + count * size_of(item.dtype)).second);
        EXPECT_GE(part.result_offset, result_end);
        result_end = part.result_offset + count * size_of(result_dtype(ReduceOp::mean, item.dtype));
        EXPECT_EQ(part.input_offset % 64, 0u);
        EXPECT_EQ(part.result_offset % 64, 0u);
      }
      EXPECT_LE(result_end, round.most_result_bytes);
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
      for (const std::size_t bytes : {std::size_t{64}, std::size_t{4096}, std::size_t{512} << 10, std::size_t{1} << 60})
        check_rounds(items, ranks, bytes);
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
