// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The fake NCCL between processes, of which one is killed.

#include "fake_ranks.hpp"
#include "support/fake_nccl_cases.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;
using nccl::RedOp;
using nccl::Result;
using nccl::UniqueId;

TEST(FakeNcclProcesses, a_killed_peer_leaves_the_others_waiting) {
  int ids[2] = {};
  ASSERT_EQ(::pipe(ids), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    UniqueId id;
    const bool is_told = ::read(ids[0], id.bytes.data(), id.bytes.size()) == static_cast<ssize_t>(id.bytes.size());
    FakeRanks job(2);
    job.nccl().exit_inside(1, 7);
    FakeRank rank(job.cuda(), job.nccl(), 1, id, 2, 1);
    float* const block = rank.put(std::vector<float>(4));
    static_cast<void>(job.nccl().all_reduce(block, block, 4, DType::f32, RedOp::sum, rank.comm, rank.stream));
    static_cast<void>(job.cuda().wait(rank.stream));
    std::_Exit(is_told ? 1 : 2);
  }
  {
    FakeRanks job(2);
    const UniqueId id = job.id();
    ASSERT_EQ(::write(ids[1], id.bytes.data(), id.bytes.size()), static_cast<ssize_t>(id.bytes.size()));
    FakeRank rank(job.cuda(), job.nccl(), 0, id, 2, 0);
    ASSERT_EQ(rank.error, Result::success);
    float* const block = rank.put(std::vector<float>(4));
    EXPECT_EQ(job.nccl().all_reduce(block, block, 4, DType::f32, RedOp::sum, rank.comm, rank.stream), Result::success);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(rank.is_idle());
    EXPECT_EQ(rank.settled(), Result::success);
    rank.abort();
    EXPECT_TRUE(job.cuda().wait(rank.stream));
  }
  ::close(ids[0]);
  ::close(ids[1]);
}

}  // namespace
}  // namespace lockstep::test
