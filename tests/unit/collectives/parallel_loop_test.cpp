// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/parallel_loop.hpp"

#include "collectives/make_communicator.hpp"
#include "support/batch.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lockstep::detail {
namespace {

/// Threads that help whenever they can, until the end.
class Helpers {
 public:
  Helpers(ParallelLoop& loop, int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([&loop](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          if (loop.is_open()) loop.help();
          std::this_thread::yield();
        }
      });
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

TEST(ParallelLoop, takes_every_turn_once_and_returns_when_all_are_done) {
  ParallelLoop loop(3, [] {});
  const Helpers helpers(loop, 2);
  for (std::uint32_t round = 0; round < 3000; ++round) {
    const std::uint32_t turns = round % 17;
    std::vector<std::uint32_t> taken(turns);  // not atomic: what other threads wrote must be seen here
    loop.run(turns, [&](std::uint32_t turn) { taken[turn] += round + 1; });
    EXPECT_EQ(taken, std::vector<std::uint32_t>(turns, round + 1));
  }
}

TEST(ParallelLoop, is_shared) {
  ParallelLoop loop(2, [] {});
  const Helpers helpers(loop, 1);
  std::atomic<int> inside{0};
  // each of two turns waits for the other: one thread alone would never end
  loop.run(2, [&](std::uint32_t) {
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(ParallelLoop, wakes_waiting_threads_and_stays_closed_if_no_thread_can_help) {
  int wakes = 0;
  ParallelLoop shared(2, [&] { ++wakes; });
  shared.run(5, [](std::uint32_t) {});
  EXPECT_EQ(wakes, 1);
  ParallelLoop alone(1, [&] { ++wakes; });
  int turns = 0;
  alone.run(5, [&](std::uint32_t) {
    EXPECT_FALSE(alone.is_open());
    ++turns;
  });
  EXPECT_EQ(turns, 5);
  EXPECT_EQ(wakes, 1);
}

/// A list of long, short and empty tensors, on two ranks that each have helpers; again and again, since the second time
/// the folds are prepared.
TEST(ParallelLoop, changes_no_bit_of_a_reduction) {
  using namespace lockstep::test;
  const std::vector<TensorCase> tensors{{DType::f32, 300'001}, {DType::bf16, 200'003}, {DType::i8, 5},
                                        {DType::f64, 0},       {DType::f64, 70'000},   {DType::f32, 1'000}};
  on_ranks({2, 1}, [&](Communicator& comm) {
    auto loop = std::make_shared<ParallelLoop>(3, [] {});
    const Helpers helpers(*loop, 2);
    CommunicatorAccess::share_loops(comm, loop);
    Batch batch(tensors, comm.layout(), comm.rank());
    for (std::size_t i = 0; i < tensors.size(); ++i) batch.add_output(i, tensors[i].dtype, tensors[i].count);
    const auto items = batch.items();
    for (int round = 0; round < 20; ++round) comm.all_reduce(items, ReduceOp::sum);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto leaves = all_leaves(tensors[i], i, comm.layout().replicas());
      EXPECT_EQ(batch.results(i).front(), canonical_reduce(ReduceOp::sum, tensors[i].dtype, leaves)) << "item " << i;
    }
  });
}

}  // namespace
}  // namespace lockstep::detail
