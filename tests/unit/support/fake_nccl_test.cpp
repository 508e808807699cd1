// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_nccl.hpp"

#include "fake_ranks.hpp"
#include "support/fake_nccl_cases.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
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

TEST(FakeNccl, computes_every_call_on_any_number_of_ranks) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    FakeRanks job(ranks);
    job.run([&](FakeRank& rank) { check_every_call(job.nccl(), rank); });
    EXPECT_EQ(job.nccl().mismatches(), std::vector<std::string>{});
    EXPECT_EQ(job.nccl().communicators(), 0u);
  }
}

TEST(FakeNccl, computes_any_mix_of_calls_in_a_group) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    FakeRanks job(ranks);
    job.run([&](FakeRank& rank) { check_random_groups(job.nccl(), rank, 17, 12); });
    EXPECT_EQ(job.nccl().mismatches(), std::vector<std::string>{});
  }
}

TEST(FakeNccl, is_in_progress_as_often_as_it_is_told_to_be) {
  FakeRanks job(1, {.init_polls = 3, .launch_polls = 2});
  const UniqueId id = job.id();
  Comm comm = nullptr;
  ASSERT_EQ(job.nccl().comm_init_rank(comm, 1, id, 0), Result::in_progress);
  const auto state = [&] {
    Result result = Result::unhandled_cuda_error;
    EXPECT_EQ(job.nccl().comm_get_async_error(comm, result), Result::success);
    return result;
  };
  EXPECT_EQ(job.nccl().all_reduce(nullptr, nullptr, 1, DType::f32, RedOp::sum, comm, nullptr),
            Result::invalid_argument);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(state(), Result::in_progress);
  EXPECT_EQ(state(), Result::success);
  cuda::Stream stream = nullptr;
  void* block = nullptr;
  ASSERT_EQ(job.cuda().stream_create(stream, 0), cuda::Status::success);
  ASSERT_EQ(job.cuda().malloc_async(block, 4, stream), cuda::Status::success);
  ASSERT_TRUE(job.cuda().wait(stream));
  EXPECT_EQ(job.nccl().all_reduce(block, block, 1, DType::f32, RedOp::sum, comm, stream), Result::in_progress);
  EXPECT_EQ(job.cuda().stream_query(stream), cuda::Status::success);  // it is not there yet
  EXPECT_EQ(state(), Result::in_progress);
  EXPECT_EQ(state(), Result::in_progress);
  EXPECT_EQ(state(), Result::success);
  EXPECT_EQ(job.nccl().comm_destroy(comm), Result::success);
}

TEST(FakeNccl, keeps_the_state_of_a_group_in_its_thread_before_version_2_27_3) {
  for (const int version : {22605, 22703}) {
    FakeRanks job(1, {.version = version, .init_polls = 0, .launch_polls = 1});
    std::array<Comm, 2> comms{};
    Result state = Result::success;
    for (Comm& comm : comms) {
      const UniqueId id = job.id();
      static_cast<void>(job.nccl().comm_init_rank(comm, 1, id, 0));
      do {
        ASSERT_EQ(job.nccl().comm_get_async_error(comm, state), Result::success);
      } while (state == Result::in_progress);
    }
    cuda::Stream stream = nullptr;
    void* block = nullptr;
    ASSERT_EQ(job.cuda().stream_create(stream, 0), cuda::Status::success);
    ASSERT_EQ(job.cuda().malloc_async(block, 4, stream), cuda::Status::success);
    const auto sum = [&](Comm comm) {
      return job.nccl().all_reduce(block, block, 1, DType::f32, RedOp::sum, comm, stream);
    };
    EXPECT_EQ(sum(comms[0]), Result::in_progress);
    std::thread([&] {  // as a progress thread does for a waiting thread
      do {
        EXPECT_EQ(job.nccl().comm_get_async_error(comms[0], state), Result::success);
      } while (state == Result::in_progress);
    })
        .join();
    EXPECT_EQ(sum(comms[1]), version < 22703 ? Result::invalid_usage : Result::in_progress) << version;
    for (Comm const comm : comms) EXPECT_EQ(job.nccl().comm_abort(comm), Result::success);
  }
}

TEST(FakeNccl, computes_the_same_where_every_launch_is_in_progress_first) {
  FakeRanks job(3, {.launch_polls = 2});
  job.run([&](FakeRank& rank) { check_random_groups(job.nccl(), rank, 3, 6); });
}

/// Sums of fractions, one list per rank, of `count` elements of T.
template <class T>
std::vector<std::vector<T>> sums_of_fractions(int ranks, std::size_t count) {
  FakeRanks job(ranks);
  std::vector<std::vector<T>> sums(static_cast<std::size_t>(ranks));
  job.run([&](FakeRank& rank) {
    std::vector<T> fractions(count);
    for (std::size_t i = 0; i < count; ++i) {
      fractions[i] = T(std::ldexp(1.0f / static_cast<float>(i + 3), 5 * rank.rank));
    }
    T* const block = rank.put(fractions);
    EXPECT_EQ(job.nccl().all_reduce(block, block, count, dtype_of<T>, RedOp::sum, rank.comm, rank.stream),
              Result::success);
    sums[static_cast<std::size_t>(rank.rank)] = rank.get(block, count);
  });
  return sums;
}

TEST(FakeNccl, adds_in_an_order_that_is_the_same_on_all_ranks_but_not_for_all_elements) {
  const auto sums = sums_of_fractions<float>(4, 1000);
  for (const auto& sum : sums) EXPECT_EQ(sum, sums.front());
  int in_rank_order = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    float sum = 0;
    for (int rank = 0; rank < 4; ++rank) sum += std::ldexp(1.0f / static_cast<float>(i + 3), 5 * rank);
    in_rank_order += sum == sums.front()[i] ? 1 : 0;
  }
  EXPECT_GT(in_rank_order, 100);
  EXPECT_LT(in_rank_order, 990);
}

TEST(FakeNccl, adds_16_bit_floats_in_16_bits) {
  const auto sums = sums_of_fractions<BFloat16>(3, 500);
  int rounded_once = 0;
  for (std::size_t i = 0; i < 500; ++i) {
    float sum = 0;
    for (int rank = 0; rank < 3; ++rank) {
      sum += static_cast<float>(BFloat16(std::ldexp(1.0f / static_cast<float>(i + 3), 5 * rank)));
    }
    rounded_once += BFloat16(sum) == sums.front()[i] ? 1 : 0;
  }
  EXPECT_GT(rounded_once, 100);
  EXPECT_LT(rounded_once, 490);
}

TEST(FakeNccl, moves_every_type_that_nccl_has_and_no_other) {
  FakeRanks job(2);
  job.run([&](FakeRank& rank) {
    for (int number = 0; number < dtype_count; ++number) {
      const auto dtype = static_cast<DType>(number);
      std::byte* const block = rank.put(std::vector<std::byte>(16, std::byte{1}));
      const Result result = job.nccl().all_reduce(block, block, 1, dtype, RedOp::max, rank.comm, rank.stream);
      EXPECT_EQ(result, nccl::is_reducible(dtype) ? Result::success : Result::invalid_argument) << to_string(dtype);
      EXPECT_EQ(rank.get(block, 1), std::vector<std::byte>{std::byte{1}});
    }
  });
}

TEST(FakeNccl, refuses_what_nccl_does_not_take) {
  FakeRanks job(2);
  job.run([&](FakeRank& rank) {
    FakeNccl& fake = job.nccl();
    const auto all_reduce = [&](const void* source, void* target) {
      return fake.all_reduce(source, target, 4, DType::i32, RedOp::sum, rank.comm, rank.stream);
    };
    std::int32_t host[4] = {};
    std::int32_t* const block = rank.put(std::vector<std::int32_t>(8));
    EXPECT_EQ(all_reduce(host, block), Result::invalid_argument);
    EXPECT_EQ(all_reduce(block, host), Result::invalid_argument);
    EXPECT_EQ(all_reduce(block, nullptr), Result::invalid_argument);
    EXPECT_EQ(all_reduce(block + 5, block), Result::invalid_argument);  // beyond its end
    EXPECT_EQ(all_reduce(block, block + 1), Result::invalid_argument);  // neither in place nor apart
    EXPECT_EQ(fake.broadcast(block, block, 4, DType::i32, 2, rank.comm, rank.stream), Result::invalid_argument);
    EXPECT_EQ(fake.send(block, 4, DType::i32, rank.rank, rank.comm, rank.stream), Result::invalid_usage);
    EXPECT_EQ(fake.all_reduce(block, block, 4, DType::i32, RedOp::sum, rank.comm, nullptr),
              Result::unhandled_cuda_error);
    EXPECT_EQ(fake.all_reduce(block, block, 4, DType::i32, RedOp::sum, nullptr, rank.stream), Result::invalid_argument);
    EXPECT_EQ(fake.group_end(), Result::invalid_usage);
    // one wrong call, and nothing of its group is done
    EXPECT_EQ(fake.group_start(), Result::success);
    EXPECT_EQ(all_reduce(block, block), Result::success);
    EXPECT_EQ(all_reduce(host, block), Result::invalid_argument);
    EXPECT_EQ(fake.group_end(), Result::invalid_argument);
    EXPECT_EQ(all_reduce(block, block + 4), Result::success);
    EXPECT_EQ(rank.get(block + 4, 4), std::vector<std::int32_t>(4));
  });
}

TEST(FakeNccl, fails_the_calls_that_it_is_told_to_fail) {
  FakeRanks job(1);
  job.nccl().calls().fail("all_gather", 1, Result::system_error);
  job.run([&](FakeRank& rank) {
    std::int32_t* const block = rank.put(std::vector<std::int32_t>(1, 9));
    const auto gather = [&] { return job.nccl().all_gather(block, block, 1, DType::i32, rank.comm, rank.stream); };
    EXPECT_EQ(gather(), Result::system_error);
    EXPECT_EQ(gather(), Result::success);
    EXPECT_EQ(job.nccl().calls().count("all_gather"), 2);
  });
}

TEST(FakeNccl, joins_the_streams_of_a_group) {
  FakeRanks job(2);
  job.run([&](FakeRank& rank) {
    cuda::Stream other = nullptr;
    cuda::Event event = nullptr;
    ASSERT_EQ(job.cuda().stream_create(other, 0), cuda::Status::success);
    ASSERT_EQ(job.cuda().event_create(event), cuda::Status::success);
    std::int32_t* const first = rank.put(std::vector<std::int32_t>{1});
    std::int32_t* const second = rank.put(std::vector<std::int32_t>{2});
    ASSERT_EQ(job.cuda().event_record(event, rank.stream), cuda::Status::success);
    ASSERT_EQ(job.cuda().stream_wait_event(other, event), cuda::Status::success);
    FakeNccl& fake = job.nccl();
    EXPECT_EQ(fake.group_start(), Result::success);
    EXPECT_EQ(fake.all_reduce(first, first, 1, DType::i32, RedOp::sum, rank.comm, rank.stream), Result::success);
    EXPECT_EQ(fake.all_reduce(second, second, 1, DType::i32, RedOp::sum, rank.comm, other), Result::success);
    EXPECT_EQ(fake.group_end(), Result::success);
    EXPECT_EQ(rank.get(second, 1), std::vector<std::int32_t>{4});  // on the first stream
    EXPECT_EQ(rank.get(first, 1), std::vector<std::int32_t>{2});
  });
}

TEST(FakeNccl, finishes_its_work_when_it_is_destroyed) {
  FakeRanks job(3);
  job.run([&](FakeRank& rank) {
    std::int32_t* const block = rank.put(numbers_of(rank.rank, 1000));
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(job.nccl().broadcast(block, block, 1000, DType::i32, i % 3, rank.comm, rank.stream), Result::success);
    }
    const Result result = job.nccl().comm_finalize(rank.comm);
    EXPECT_TRUE(result == Result::success || result == Result::in_progress);
    rank.destroy();
    EXPECT_TRUE(rank.is_idle() || job.cuda().wait(rank.stream));
    EXPECT_EQ(rank.get(block, 1000), numbers_of(0, 1000));
  });
}

TEST(FakeNccl, leaves_nothing_behind) {
  const TemporaryDirectory directory;
  const char* const before = std::getenv("TMPDIR");
  const std::optional<std::string> kept = before == nullptr ? std::nullopt : std::optional<std::string>(before);
  ::setenv("TMPDIR", directory.path().c_str(), 1);
  {
    FakeRanks job(3);
    job.run([&](FakeRank& rank) {
      if (rank.rank == 0) {
        EXPECT_EQ(files_in(directory.path()).size(), 1u);
      }
      check_random_groups(job.nccl(), rank, 1, 2);
    });
    EXPECT_EQ(files_in(directory.path()), std::vector<std::string>{});  // with the last communicator
    static_cast<void>(job.id());                                        // that no rank joins
  }
  EXPECT_EQ(files_in(directory.path()), std::vector<std::string>{});
  kept ? ::setenv("TMPDIR", kept->c_str(), 1) : ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace lockstep::test
