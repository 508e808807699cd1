// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The fake NCCL between processes, each with a fake GPU of its own or all with the same one.

#include "support/fake_nccl.hpp"

#include "support/fake_nccl_cases.hpp"
#include "support/fake_rank.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using detail::nccl::RedOp;
using detail::nccl::Result;
using detail::nccl::UniqueId;

int own_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int rank_count() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

/// A fake NCCL in this process, and the id that rank 0 has made.
struct Process {
  explicit Process(std::uint64_t machine) : cuda(std::make_shared<FakeCuda>(FakeCudaOptions{.machine = machine})) {
    if (own_rank() == 0) {
      EXPECT_EQ(nccl.get_unique_id(id), Result::success);
    }
    MPI_Bcast(id.bytes.data(), static_cast<int>(id.bytes.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  ~Process() { MPI_Barrier(MPI_COMM_WORLD); }  // all have left before rank 0 takes the id away

  std::shared_ptr<FakeCuda> cuda;
  FakeNccl nccl{cuda};
  UniqueId id;
};

std::uint64_t machine_of_this_rank() { return static_cast<std::uint64_t>(own_rank()); }

TEST(FakeNcclProcesses, compute_every_call) {
  Process process(machine_of_this_rank());
  FakeRank rank(*process.cuda, process.nccl, 0, process.id, rank_count(), own_rank());
  ASSERT_EQ(rank.error, Result::success);
  check_every_call(process.nccl, rank);
  EXPECT_EQ(process.nccl.mismatches(), std::vector<std::string>{});
}

TEST(FakeNcclProcesses, compute_any_mix_of_calls_in_a_group) {
  Process process(machine_of_this_rank());
  FakeRank rank(*process.cuda, process.nccl, 0, process.id, rank_count(), own_rank());
  ASSERT_EQ(rank.error, Result::success);
  check_random_groups(process.nccl, rank, 5, 12);
}

TEST(FakeNcclProcesses, see_the_same_gpu_on_the_same_machine) {
  Process process(0);
  const FakeRank rank(*process.cuda, process.nccl, 0, process.id, rank_count(), own_rank());
  EXPECT_EQ(rank.error, Result::invalid_usage);
  EXPECT_NE(process.nccl.last_error(nullptr).find("Duplicate GPU detected"), std::string::npos);
}

TEST(FakeNcclProcesses, detect_that_their_calls_differ) {
  Process process(machine_of_this_rank());
  FakeRank rank(*process.cuda, process.nccl, 0, process.id, rank_count(), own_rank());
  ASSERT_EQ(rank.error, Result::success);
  std::int32_t* const block = rank.put(std::vector<std::int32_t>(8));
  const std::size_t count = own_rank() == 0 ? 8 : 4;
  EXPECT_EQ(process.nccl.all_reduce(block, block, count, DType::i32, RedOp::sum, rank.comm, rank.stream),
            Result::success);
  const Result error = rank.failure();
  EXPECT_TRUE(error == Result::internal_error || error == Result::remote_error);
  rank.abort();
  EXPECT_TRUE(process.cuda->wait(rank.stream));
}

TEST(FakeNcclProcesses, wait_for_a_hung_rank_until_they_abort) {
  Process process(machine_of_this_rank());
  process.nccl.never_end(0);
  FakeRank rank(*process.cuda, process.nccl, 0, process.id, rank_count(), own_rank());
  ASSERT_EQ(rank.error, Result::success);
  std::int32_t* const block = rank.put(std::vector<std::int32_t>(8));
  EXPECT_EQ(process.nccl.all_reduce(block, block, 8, DType::i32, RedOp::sum, rank.comm, rank.stream), Result::success);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(rank.is_idle());
  rank.abort();
  EXPECT_TRUE(process.cuda->wait(rank.stream));
}

}  // namespace
}  // namespace lockstep::test
