// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Small operations, whose data travels with the agreement.

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/schedule_model.hpp>

#include "collectives/engine/carried_data.hpp"
#include "collectives/engine/engine.hpp"
#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/late_ranks.hpp"
#include "support/nodes.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

const std::vector<NodeLayout> layouts{
    {{0, 1}, {1, 1}},
    {{0, 1, 2}, {2, 1, 3}},
    {{0, 0, 2, 2}, {1, 1, 1, 1}},
    {{0, 0, 0, 3}, {1, 2, 1, 1}},
    {{0, 1, 1, 3, 3}, {1, 1, 1, 1, 1}},
    {{0, 1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1, 1}},
    {{0, 0, 2, 3, 3, 5, 6, 7, 7, 9, 9}, {1, 3, 1, 1, 2, 1, 1, 1, 1, 1, 1}},
    {{0, 1, 0, 1}, {1, 1, 1, 1}},  // the ranks of a node are not consecutive
};

class CarriedData : public testing::TestWithParam<bool> {};

TEST_P(CarriedData, has_the_bits_of_data_that_follows_the_agreement) {
  for (const NodeLayout& layout : some_of(layouts)) {
    for (const bool share_memory : {true, false}) {
      if (is_quick() && share_memory == GetParam()) continue;
      on_nodes(layout, {share_memory, GetParam()}, [](Communicator& comm) { check_every_collective(comm); });
    }
  }
}

/// The ranks of such a node agree in several levels, which carry none of the data between nodes.
TEST_P(CarriedData, has_the_same_bits_on_nodes_of_many_ranks) {
  NodeLayout layout;
  for (int rank = 0; rank < 37; ++rank) {
    layout.leaders.push_back(rank < 20 ? 0 : 20);
    layout.replicas.push_back(1);
  }
  on_nodes(layout, {.carries = GetParam()}, [](Communicator& comm) { check_every_collective(comm); });
}

TEST_P(CarriedData, survives_mismatches_of_every_size) {
  for (const bool share_memory : {true, false}) {
    on_nodes({{0, 0, 2, 3, 3, 5}, {1, 1, 1, 1, 1, 1}}, {share_memory, GetParam()}, [](Communicator& comm) {
      for (const std::size_t count : {1U, 1000U, 100'000U}) {
        for (const std::size_t other : {2U, 900U, 90'000U}) {
          for (int odd = 0; odd < comm.size(); ++odd) {
            std::vector<float> values(comm.rank() == odd ? other : count, 1.0F);
            const std::vector<float> before = values;
            try {
              comm.all_reduce(std::span(values), ReduceOp::sum);
              FAIL() << "no mismatch";
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), Code::mismatch) << error.what();
              EXPECT_EQ(error.context().rank, std::max(odd, 1)) << error.what();
            }
            EXPECT_EQ(values, before);
          }
          std::vector<float> values(count, 1.0F);
          comm.all_reduce(std::span(values), ReduceOp::sum);
          EXPECT_EQ(values, std::vector<float>(count, static_cast<float>(comm.size())));
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Carries, CarriedData, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "yes" : "no"; });

/// A rank that comes after the deadline of the others gets their error, although it finds their headers.
TEST_P(CarriedData, is_not_delivered_to_a_rank_that_is_late) {
  for (const NodeLayout& layout : {NodeLayout{{0, 1}, {1, 1}}, NodeLayout{{0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1}},
                                   NodeLayout{{0, 0, 2, 2}, {1, 1, 1, 1}}}) {
    for (const bool is_barrier : {false, true}) {
      std::atomic<int> failed{0};
      const int ranks = static_cast<int>(layout.leaders.size());
      LateRanks late(ranks, {ranks - 1});
      on_nodes(layout, {.carries = GetParam()}, [&](Communicator& comm) {
        std::vector<float> values(10, 1.0F);
        const ReduceOptions soon{.order = std::nullopt, .name = {}, .fail_after = std::chrono::milliseconds(400)};
        comm.barrier();
        try {
          late.call(comm,
                    [&] { is_barrier ? comm.barrier(soon) : comm.all_reduce(std::span(values), ReduceOp::sum, soon); });
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::deadline_exceeded) << error.what();
          ++failed;
        }
        EXPECT_EQ(comm.recover(), 1);
        comm.all_reduce(std::span(values), ReduceOp::sum);
        EXPECT_EQ(values, std::vector<float>(10, static_cast<float>(comm.size())));
      });
      EXPECT_EQ(failed, ranks);
    }
  }
}

/// Sizes of one stage and of several, of one segment and of several.
TEST(RootedOperation, between_nodes_moves_data_of_any_size_from_and_to_any_root) {
  std::vector<NodeLayout> all(layouts);
  all.push_back({{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, std::vector<int>(12, 1)});
  for (const NodeLayout& layout : some_of(all)) {
    for (const bool share_memory : {true, false}) {
      on_nodes(layout, {share_memory, false}, [](Communicator& comm) {
        for (const std::size_t count : {1U, 999U, 25'000U, is_quick() ? 100'001U : 500'001U}) {
          const int root = static_cast<int>(count) % comm.size();
          const auto value = [&](int rank, std::size_t i) {
            return static_cast<float>((i + count) % 1000 * (static_cast<std::size_t>(rank) + 1));
          };
          const Shape shape{static_cast<std::int64_t>(count)};
          std::vector<float> values(count);
          std::vector<float> maxima(count);
          for (std::size_t i = 0; i < count; ++i) values[i] = value(comm.rank(), i);
          const std::vector inputs(static_cast<std::size_t>(comm.local_replicas()),
                                   ConstTensorView{values.data(), DType::f32, shape});
          const std::vector<TensorView> outputs{{maxima.data(), DType::f32, shape, Device{}},
                                                {values.data(), DType::f32, shape, Device{}}};
          const bool is_root = comm.rank() == root;
          const Item reduced{inputs, std::span(outputs).first(is_root ? 1 : 0)};
          comm.reduce(std::span(&reduced, 1), ReduceOp::max, root);
          for (std::size_t i = 0; is_root && i < count; ++i) ASSERT_EQ(maxima[i], value(comm.size() - 1, i)) << i;
          const Item in_place{std::span(inputs).first(is_root ? 1 : 0), std::span(outputs).last(1)};
          comm.broadcast(std::span(&in_place, 1), root);
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], value(root, i)) << i;
        }
      });
    }
  }
}

/// Parts that are small enough to go through the ranks of the root's node, and through other nodes.
TEST(RootedOperation, between_nodes_moves_small_parts_from_and_to_any_root) {
  std::vector<NodeLayout> all(layouts);
  all.push_back({{0, 0, 2, 2, 4, 4, 6, 6}, std::vector<int>(8, 2)});
  all.push_back({{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, std::vector<int>(12, 1)});
  for (const NodeLayout& layout : all) {
    on_nodes(layout, {.carries = false}, [](Communicator& comm) {
      for (int root = 0; root < comm.size(); ++root) {
        check_gather(comm, root, on_host, {{DType::f32, 99}, {DType::bf16, 0}, {DType::u8, 7}, {DType::f64, 100}});
        const auto parts = static_cast<std::size_t>(comm.layout().replicas());
        std::vector<std::int32_t> input(100 * parts);
        for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::int32_t>(i) + root;
        std::vector<std::int32_t> outputs(100 * static_cast<std::size_t>(comm.local_replicas()));
        const ConstTensorView whole{input.data(), DType::i32, Shape{static_cast<std::int64_t>(input.size())}};
        std::vector<TensorView> views;
        for (int r = 0; r < comm.local_replicas(); ++r)
          views.push_back({outputs.data() + 100 * r, DType::i32, Shape{100}, Device{}});
        const Item item{std::span(&whole, comm.rank() == root ? 1 : 0), views};
        comm.scatter(std::span(&item, 1), root);
        for (std::size_t i = 0; i < outputs.size(); ++i)
          ASSERT_EQ(outputs[i], 100 * comm.layout().first(comm.rank()) + static_cast<int>(i) + root);
      }
    });
  }
}

TEST(SmallOperation, between_nodes_is_one_exchange) {
  on_nodes({{0, 0, 2, 2}, {1, 1, 1, 1}}, {}, [](Communicator& comm) {
    const auto transferred = [&] { return CommunicatorAccess::engine(comm).transport().count().completed; };
    const auto before = transferred();
    std::vector<float> values(1000, 1.0F);
    comm.all_reduce(std::span(values), ReduceOp::sum);
    comm.broadcast(std::span(values), 1);
    static_cast<void>(comm.all_gather(comm.rank()));
    EXPECT_EQ(transferred(), before);
    EXPECT_EQ(selected_schedule(comm, 4000, BufferKind::arena), "with the agreement");
    values.resize(100'000);
    EXPECT_NE(selected_schedule(comm, 400'000, BufferKind::arena), "with the agreement");
  });
}

TEST(CarrySteps, cover_all_ranks_and_know_the_blocks_of_a_part) {
  const ReplicaLayout even(std::vector<int>(16, 1));
  const std::vector<int> leaders{0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
  const detail::CarrySteps leader(even, leaders, 4);
  ASSERT_TRUE(leader.are_possible());
  EXPECT_EQ(leader.most_blocks(), 1U);
  EXPECT_EQ(leader.bounds(), (std::vector<std::vector<int>>{{4, 5, 6, 7, 8}, {0, 4, 8, 12, 16}}));
  EXPECT_TRUE(detail::CarrySteps(even, leaders, 5).bounds().empty());
  EXPECT_FALSE(detail::CarrySteps(even, std::vector<int>(16, 0), 0).are_possible()) << "one node";
  EXPECT_GT(detail::CarrySteps(ReplicaLayout({3, 3, 3}), std::vector<int>{0, 1, 2}, 0).most_blocks(), 1U);
}

}  // namespace
}  // namespace lockstep::test
