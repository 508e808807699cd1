// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/communicator.hpp>

#include "support/collective_cases.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::test {
namespace {

class ThreadRanks : public testing::TestWithParam<std::vector<int>> {};

TEST_P(ThreadRanks, get_the_right_bits_from_every_collective) {
  on_ranks(GetParam(), [](Communicator& comm) { check_every_collective(comm); });
}

TEST_P(ThreadRanks, can_duplicate_their_communicator_with_other_numbers_of_replicas) {
  on_ranks(GetParam(), [](Communicator& comm) {
    CommunicatorOptions options;
    options.local_replicas = 1 + comm.rank() % 2;
    Communicator other = comm.duplicate(options);
    EXPECT_EQ(other.layout().count(comm.rank()), options.local_replicas);
    EXPECT_EQ(other.layout().replicas(), comm.size() + comm.size() / 2);
    check_all_reduce(other, ReduceOp::sum);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, ThreadRanks,
                         testing::Values(std::vector{1}, std::vector{4}, std::vector{1, 1}, std::vector{2, 1, 1},
                                         std::vector{1, 3}, std::vector{2, 2}, std::vector{3, 1, 2, 2, 1},
                                         std::vector{1, 1, 1, 1, 1, 1, 1, 1}));

TEST(Communicator, works_from_several_threads_of_a_rank_on_communicators_of_their_own) {
  on_ranks({1, 1}, [](Communicator& comm) {
    Communicator other = comm.duplicate({});
    std::jthread second([&] { check_every_collective(other); });
    check_every_collective(comm);
  });
}

TEST(Communicator, reduces_a_span_in_place) {
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    std::vector<float> gradient{1.0f, static_cast<float>(comm.rank())};
    comm.all_reduce(std::span(gradient), ReduceOp::mean);
    EXPECT_EQ(gradient, (std::vector{1.0f, 1.0f}));
  });
}

TEST(Communicator, honours_any_order_by_the_canonical_one_where_there_is_no_backend) {
  on_ranks({1, 2},
           [](Communicator& comm) { check_all_reduce(comm, ReduceOp::sum, {.order = Order::any, .name = "free"}); });
}

TEST(Communicator, says_which_order_it_takes) {
  const Communicator by_default = self_communicator();
  EXPECT_EQ(by_default.order(), Order::canonical);
  EXPECT_EQ(by_default.order(DeviceKind::gpu), Order::any);
  for (const Order order : {Order::canonical, Order::any}) {
    CommunicatorOptions options;
    options.order = order;
    ASSERT_EQ(setenv("LOCKSTEP_ORDER", "canonical", 1), 0);
    const Communicator tightened = self_communicator(options);
    ASSERT_EQ(unsetenv("LOCKSTEP_ORDER"), 0);
    const Communicator as_told = self_communicator(options);
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::gpu}) {
      EXPECT_EQ(as_told.order(kind), order);
      EXPECT_EQ(tightened.order(kind), Order::canonical);
    }
  }
}

TEST(Communicator, completes_a_dropped_request) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::vector<double> value{1};
    const ConstTensorView input = view_of(std::span<double>(value));
    const TensorView output = view_of(std::span<double>(value));
    const Item item{std::span(&input, 1), std::span(&output, 1)};
    { const Request dropped = comm.all_reduce_async(std::span(&item, 1), ReduceOp::sum); }
    EXPECT_EQ(value[0], 2);
  });
}

}  // namespace
}  // namespace lockstep::test
