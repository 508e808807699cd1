// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Events of a process: it is stopped and continues later, or it forks.

#include <lockstep/base/error.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/interop/mpi.hpp>

#include "support/batch.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/stop.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::test {
namespace {

/// The other ranks time out while one rank is stopped; it does no harm when it continues.
void check_stopped_rank(std::size_t elements) {
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  if (comm.size() == 1) GTEST_SKIP() << "there is no other rank that waits";
  const Communicator calm = communicator_from(MPI_COMM_WORLD);
  StoppedRank stopped;
  std::vector<float, ArenaAllocator<float>> values(elements, 1.0f);
  const auto reduce = [&](const ReduceOptions& options) {
    comm.all_reduce(std::span<float>(values), ReduceOp::sum, options);
  };
  reduce({});
  const bool is_stopped = comm.rank() == comm.size() - 1;
  if (is_stopped) stopped.stop();
  EXPECT_EQ(code_of([&] { reduce(one_second); }), Code::deadline_exceeded);
  const float mine = static_cast<float>(100 + comm.rank());
  std::fill(values.begin(), values.end(), mine);
  stopped.meet();
  for (const float value : values) ASSERT_EQ(value, mine);
  calm.barrier();
  reduce({});
  float sum = 0;
  for (int rank = 0; rank < comm.size(); ++rank) sum += static_cast<float>(100 + rank);
  for (const float value : values) ASSERT_EQ(value, sum);
}

/// The same if ranks read the memory of others, and write only their own.
void check_stopped_reader(std::int64_t elements) {
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  if (comm.size() == 1) GTEST_SKIP() << "there is no other rank that waits";
  const Communicator calm = communicator_from(MPI_COMM_WORLD);
  StoppedRank stopped;
  const auto count = static_cast<std::size_t>(elements);
  std::vector<float, ArenaAllocator<float>> mine(count, static_cast<float>(comm.rank()));
  std::vector<float, ArenaAllocator<float>> all(count * static_cast<std::size_t>(comm.size()), -1.0f);
  const ConstTensorView input{mine.data(), DType::f32, Shape{elements}};
  const TensorView output{all.data(), DType::f32, Shape{elements * comm.size()}, Device{}};
  const Item item{std::span(&input, 1), std::span(&output, 1)};
  const auto gather = [&](const ReduceOptions& options) { comm.all_gather(std::span(&item, 1), options); };
  const auto check = [&](float first) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t rank = i / count;
      ASSERT_EQ(all[i], first + static_cast<float>(rank));
    }
  };
  gather({});
  check(0.0f);
  const bool is_stopped = comm.rank() == comm.size() - 1;
  if (is_stopped) stopped.stop();
  EXPECT_EQ(code_of([&] { gather(one_second); }), Code::deadline_exceeded);
  std::fill(all.begin(), all.end(), -2.0f);
  stopped.meet();
  for (const float value : all) ASSERT_EQ(value, -2.0f);
  std::fill(mine.begin(), mine.end(), 10.0f + static_cast<float>(comm.rank()));
  calm.barrier();
  gather({});
  check(10.0f);
}

TEST(StoppedRank, harms_no_small_sum) { check_stopped_rank(100); }
TEST(StoppedRank, harms_no_large_sum) { check_stopped_rank(300'000); }
TEST(StoppedRank, harms_no_small_gathering) { check_stopped_reader(100); }
TEST(StoppedRank, harms_no_large_gathering) { check_stopped_reader(300'000); }

TEST(Fork, leaves_the_childs_calls_without_effect) {
  std::optional<Communicator> last = communicator_from(MPI_COMM_WORLD);
  Communicator& comm = *last;
  std::vector<float> values(5000, 1.0f);
  comm.all_reduce(std::span(values), ReduceOp::max);
  std::promise<void> called;  // by a thread that the child does not have
  int level = 0;
  MPI_Query_thread(&level);
  if (level == MPI_THREAD_MULTIPLE) {
    comm.barrier_async().when_complete([&](const Error*) { called.set_value(); });
    called.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // mostly enough for all threads to rest
  }
  const pid_t child = fork();
  if (child == 0) {
    Communicator copy = comm;
    const bool throws =
        code_of([&] { copy.all_reduce(std::span(values), ReduceOp::max); }) == Code::failed_precondition &&
        code_of([&] { copy.barrier_async().wait(); }) == Code::failed_precondition;
    copy.abort("from a child");
    comm = copy;
    {
      const Communicator destroyed = std::move(copy);
      last.reset();
    }
    _exit(throws ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  comm.all_reduce(std::span(values), ReduceOp::sum);
  EXPECT_EQ(values[4999], static_cast<float>(comm.size()));
}

}  // namespace
}  // namespace lockstep::test
