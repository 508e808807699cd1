// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Behaviour of the fake NCCL if ranks differ, stop, or are invalid.

#include "fake_ranks.hpp"
#include "support/errors.hpp"
#include "support/fake_nccl_cases.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;
using nccl::Comm;
using nccl::RedOp;
using nccl::Result;
using nccl::UniqueId;

constexpr auto soon = std::chrono::minutes(2);

/// Ranks that do different things: what their communicators' errors are. Every stream stands still until the abort.
std::vector<Result> errors_of(FakeRanks& job, int ranks, const std::function<void(FakeRank&)>& calls) {
  std::vector<Result> errors(static_cast<std::size_t>(ranks));
  job.run([&](FakeRank& rank) {
    calls(rank);
    errors[static_cast<std::size_t>(rank.rank)] = rank.failure();
    EXPECT_FALSE(rank.is_idle());
    rank.abort();
    EXPECT_TRUE(job.cuda().wait(rank.stream));
  });
  return errors;
}

void expect_a_mismatch(FakeRanks& job, int ranks, const std::function<void(FakeRank&)>& calls,
                       std::initializer_list<std::string> parts) {
  const auto errors = errors_of(job, ranks, calls);
  for (const Result error : errors) EXPECT_TRUE(error == Result::internal_error || error == Result::remote_error);
  ASSERT_FALSE(job.nccl().mismatches().empty());
  std::string all;
  for (const std::string& text : job.nccl().mismatches()) all += text + "\n";
  expect_all(all, parts);
}

TEST(FakeNcclFailure, other_counts_are_found) {
  FakeRanks job(3);
  expect_a_mismatch(job, 3,
                    [&](FakeRank& rank) {
                      std::int32_t* const block = rank.put(std::vector<std::int32_t>(20));
                      const std::size_t count = rank.rank == 1 ? 20 : 10;
                      EXPECT_EQ(
                          job.nccl().all_reduce(block, block, count, DType::i32, RedOp::sum, rank.comm, rank.stream),
                          Result::success);
                    },
                    {"all_reduce of 10 i32 (sum)", "all_reduce of 20 i32 (sum)"});
}

TEST(FakeNcclFailure, other_kinds_types_ops_and_roots_are_found) {
  for (int difference = 0; difference < 4; ++difference) {
    FakeRanks job(2);
    expect_a_mismatch(job, 2,
                      [&](FakeRank& rank) {
                        std::int32_t* const block = rank.put(std::vector<std::int32_t>(8));
                        const bool differs = rank.rank == 1;
                        const DType dtype = differs && difference == 0 ? DType::f32 : DType::i32;
                        const RedOp op = differs && difference == 1 ? RedOp::max : RedOp::sum;
                        const int root = differs && difference == 2 ? 1 : 0;
                        const bool is_broadcast = differs && difference == 3;
                        const Result result =
                            is_broadcast ? job.nccl().broadcast(block, block, 4, dtype, root, rank.comm, rank.stream)
                                         : job.nccl().reduce(block, block, 4, dtype, op, root, rank.comm, rank.stream);
                        EXPECT_EQ(result, Result::success);
                      },
                      {"rank 1"});
  }
}

TEST(FakeNcclFailure, a_send_to_a_rank_in_another_call_is_found) {
  FakeRanks job(2);
  expect_a_mismatch(job, 2,
                    [&](FakeRank& rank) {
                      std::int32_t* const block = rank.put(std::vector<std::int32_t>(4));
                      const Result result =
                          rank.rank == 0
                              ? job.nccl().send(block, 4, DType::i32, 1, rank.comm, rank.stream)
                              : job.nccl().all_reduce(block, block, 4, DType::i32, RedOp::sum, rank.comm, rank.stream);
                      EXPECT_EQ(result, Result::success);
                    },
                    {"rank 1 wants all_reduce of 4 i32 (sum)", "rank 0 does send of 4 i32"});
}

TEST(FakeNcclFailure, an_order_that_differs_is_found) {
  FakeRanks job(2);
  expect_a_mismatch(job, 2,
                    [&](FakeRank& rank) {
                      std::int32_t* const block = rank.put(std::vector<std::int32_t>(4));
                      for (const int count : {1 + rank.rank, 2 - rank.rank}) {
                        // the second is refused where the first has failed already
                        static_cast<void>(job.nccl().all_reduce(block, block, static_cast<std::size_t>(count),
                                                                DType::i32, RedOp::sum, rank.comm, rank.stream));
                      }
                    },
                    {"of 1 i32", "of 2 i32"});
}

/// The error of a job of two ranks that do not join in time.
std::string refusal_of(FakeRanks& job, int second_device, Result result) {
  const auto id = job.id();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      FakeRank self(job.cuda(), job.nccl(), rank == 0 ? 0 : second_device, id, 2, rank);
      EXPECT_EQ(self.error, result);
    });
  }
  threads.clear();
  return job.nccl().last_error(nullptr);
}

TEST(FakeNcclFailure, two_ranks_on_one_gpu_are_refused) {
  FakeRanks job(2);
  expect_all(refusal_of(job, 0, Result::invalid_usage), {"Duplicate GPU detected : rank 0 and rank 1"});
}

TEST(FakeNcclFailure, two_numbers_of_one_gpu_are_refused) {
  FakeRanks job(2, {}, {.uuids = {{1, 2}, {1, 2}}});
  expect_all(refusal_of(job, 1, Result::invalid_usage), {"Duplicate GPU detected : rank 0 and rank 1"});
}

TEST(FakeNcclFailure, two_versions_are_refused) {
  FakeRanks job(2);
  job.nccl().pretend_version(1, 22005);
  expect_all(refusal_of(job, 1, Result::invalid_usage), {"Mismatched NCCL version detected", "22809", "22005"});
}

TEST(FakeNcclFailure, a_rank_comes_once_and_only_while_the_id_is_there) {
  UniqueId id;
  Comm comm = nullptr;
  {
    FakeRanks job(2);
    id = job.id();
    EXPECT_EQ(job.nccl().comm_init_rank(comm, 2, id, 2), Result::invalid_argument);
    EXPECT_EQ(job.nccl().comm_init_rank(comm, 2, id, 0), Result::in_progress);
    EXPECT_EQ(job.nccl().comm_init_rank(comm, 2, id, 0), Result::invalid_usage);
    EXPECT_EQ(job.nccl().communicators(), 1u);
  }
  FakeRanks job(2);
  EXPECT_EQ(job.nccl().comm_init_rank(comm, 2, id, 0), Result::system_error);
}

TEST(FakeNcclFailure, an_operation_that_never_ends_ends_at_the_abort) {
  FakeRanks job(3);
  job.nccl().never_end(1, 2);
  const auto begin = std::chrono::steady_clock::now();
  job.run([&](FakeRank& rank) {
    std::int32_t* const block = rank.put(std::vector<std::int32_t>(4, 1));
    const auto all_reduce = [&] {
      EXPECT_EQ(job.nccl().all_reduce(block, block, 4, DType::i32, RedOp::sum, rank.comm, rank.stream),
                Result::success);
    };
    all_reduce();
    const auto first = rank.record();
    all_reduce();
    all_reduce();
    rank.await(first);
    EXPECT_FALSE(rank.is_idle());
    EXPECT_EQ(rank.settled(), Result::success);  // nothing is known to be wrong
    rank.abort();
    EXPECT_EQ(rank.get(block, 4), std::vector<std::int32_t>(4, 3));  // the first alone was done
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, soon);
}

TEST(FakeNcclFailure, a_launch_fails_late_where_that_was_asked_for) {
  FakeRanks job(2);
  job.nccl().fail_launch(0, Result::remote_error);
  job.run([&](FakeRank& rank) {
    std::int32_t* const block = rank.put(std::vector<std::int32_t>(4));
    const auto all_reduce = [&] {
      return job.nccl().all_reduce(block, block, 4, DType::i32, RedOp::sum, rank.comm, rank.stream);
    };
    EXPECT_EQ(all_reduce(), Result::success);
    if (rank.rank == 0) {
      EXPECT_EQ(rank.failure(), Result::remote_error);
      EXPECT_EQ(all_reduce(), Result::remote_error);
    }
    EXPECT_FALSE(rank.is_idle());
    rank.abort();
  });
}

TEST(FakeNcclFailure, a_failed_communicator_can_be_destroyed) {
  FakeRanks job(1);
  job.nccl().fail_launch(0, Result::system_error);
  job.run([&](FakeRank& rank) {
    std::int32_t* const block = rank.put(std::vector<std::int32_t>(4));
    EXPECT_EQ(job.nccl().all_reduce(block, block, 4, DType::i32, RedOp::sum, rank.comm, rank.stream), Result::success);
    EXPECT_EQ(rank.failure(), Result::system_error);
    rank.destroy();
    EXPECT_TRUE(job.cuda().wait(rank.stream));
  });
}

TEST(FakeNcclFailure, an_abort_does_not_wait_for_what_is_before_it_on_the_stream) {
  FakeRanks job(1);
  job.nccl().never_end(0, 1);
  job.run([&](FakeRank& rank) {
    Comm second = nullptr;
    ASSERT_EQ(job.nccl().comm_init_rank(second, 1, job.id(), 0), Result::in_progress);
    Result state = Result::in_progress;
    while (state == Result::in_progress) {
      ASSERT_EQ(job.nccl().comm_get_async_error(second, state), Result::success);
      std::this_thread::yield();
    }
    std::int32_t* const block = rank.put(std::vector<std::int32_t>(4));
    for (const Comm comm : {rank.comm, second}) {
      EXPECT_EQ(job.nccl().all_reduce(block, block, 4, DType::i32, RedOp::sum, comm, rank.stream), Result::success);
    }
    EXPECT_EQ(job.nccl().comm_abort(second), Result::success);
    EXPECT_FALSE(rank.is_idle());
    rank.abort();
    EXPECT_TRUE(job.cuda().wait(rank.stream));
  });
}

TEST(FakeNcclFailure, what_a_failed_gpu_does_not_do_ends_too) {
  FakeRanks job(1);
  job.run([&](FakeRank& rank) {
    std::int32_t* const block = rank.put(std::vector<std::int32_t>(4));
    ASSERT_TRUE(job.cuda().wait(rank.stream));
    job.cuda().fail_next_work(0, cuda::Status::launch_failure);
    EXPECT_EQ(job.nccl().all_reduce(block, block, 4, DType::i32, RedOp::sum, rank.comm, rank.stream), Result::success);
    EXPECT_TRUE(job.cuda().wait(rank.stream));
    EXPECT_EQ(job.nccl().all_reduce(block, block, 4, DType::i32, RedOp::sum, rank.comm, rank.stream),
              Result::unhandled_cuda_error);
    rank.destroy();
  });
}

}  // namespace
}  // namespace lockstep::test
