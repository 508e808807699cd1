// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The thread that drives asynchronous operations of all communicators of a rank, and the threads that call callbacks.

#include <lockstep/base/error.hpp>

#include "collectives/engine/progress_thread.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <future>
#include <iterator>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

/// The number of threads of this process.
std::ptrdiff_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(ProgressThread, is_one_for_all_communicators_that_were_made_from_each_other) {
  constexpr int ranks = 2;
  constexpr std::size_t communicators = 20;
  std::latch all_posted(ranks);
  std::ptrdiff_t most = 0;
  const std::ptrdiff_t before = threads();
  on_ranks({1, 1}, [&](Communicator& comm) {
    std::vector<Communicator> copies;
    std::vector<float> values(communicators, 1.0F);
    std::vector<Request> requests;
    for (std::size_t k = 0; k < communicators; ++k) {
      copies.push_back(comm.duplicate({.name = "copy"}));
      requests.push_back(
          copies.back().all_reduce_async(std::span(values).subspan(k, 1), ReduceOp::sum, long_deadline()));
    }
    all_posted.arrive_and_wait();
    if (comm.rank() == 0) most = threads() - before;
    comm.barrier(long_deadline());
    for (Request& request : requests) request.wait();
    EXPECT_EQ(values, std::vector(communicators, 2.0F));
  });
  EXPECT_EQ(most, 2 * ranks);  // and the ranks themselves
}

TEST(ProgressThread, of_a_process_ends_with_its_last_owner) {
  const auto one = detail::ProgressThread::of_process();
  EXPECT_EQ(one, detail::ProgressThread::of_process());
  std::weak_ptr<detail::ProgressThread> last = std::make_shared<detail::ProgressThread>();
  EXPECT_TRUE(last.expired());
}

/// While another thread waits, the thread rests; then it goes on.
TEST(ProgressThread, drives_what_a_wait_has_left_when_it_ended) {
  std::atomic<bool> has_waited{false};
  std::atomic<bool> is_complete{false};
  on_ranks({1, 1}, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      std::array<Request, 2> barriers{comm.barrier_async(long_deadline()), comm.barrier_async(long_deadline())};
      EXPECT_FALSE(barriers[0].wait_for(std::chrono::seconds(2)));
      has_waited = true;
      for (int pauses = 0; pauses < 10'000 && !is_complete; ++pauses)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // and drives nothing
      EXPECT_TRUE(is_complete);
      for (Request& barrier : barriers) barrier.wait();
    } else {
      while (!has_waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      comm.barrier(long_deadline());
      comm.barrier(long_deadline());
      is_complete = true;
    }
  });
}

/// The first callback of each rank waits for the second one of the other rank, on another communicator.
TEST(ProgressThread, leaves_callbacks_alone_that_wait_for_each_other) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const std::vector<Communicator> copies{comm.duplicate({.name = "copy"}), comm.duplicate({.name = "copy"})};
    const Communicator& own = copies[static_cast<std::size_t>(comm.rank())];
    const Communicator& other = copies[static_cast<std::size_t>(1 - comm.rank())];
    std::promise<void> waited;
    std::promise<void> answered;
    std::vector<float> values(4, 1.0F);
    own.barrier_async(long_deadline()).when_complete([&](const Error*) {
      comm.recv(std::span(values).first(1), 1 - comm.rank(), long_deadline());
      waited.set_value();
    });
    other.barrier_async(long_deadline()).when_complete([&](const Error*) {
      comm.send(std::span<const float>(values).last(1), 1 - comm.rank(), long_deadline());
      answered.set_value();
    });
    waited.get_future().wait();
    answered.get_future().wait();
  });
}

}  // namespace
}  // namespace lockstep::test
