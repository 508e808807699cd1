// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Cases that a fake NCCL must compute, for ranks of any kind.

#pragma once

#include "support/fake_nccl.hpp"
#include "support/fake_rank.hpp"
#include "support/function_ref.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace lockstep::test {

/// Small numbers that identify the rank that wrote them.
inline std::vector<std::int32_t> numbers_of(int rank, std::size_t count, int salt = 0) {
  std::vector<std::int32_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<std::int32_t>(i % 7) + 3 * rank + salt + 1;
  return numbers;
}

/// Combined over all ranks, element by element.
inline std::vector<std::int32_t> combined(int ranks, std::size_t count, detail::nccl::RedOp op, int salt = 0) {
  using detail::nccl::RedOp;
  auto result = numbers_of(0, count, salt);
  for (int rank = 1; rank < ranks; ++rank) {
    const auto next = numbers_of(rank, count, salt);
    for (std::size_t i = 0; i < count; ++i) {
      if (op == RedOp::sum) result[i] += next[i];
      if (op == RedOp::prod) result[i] *= next[i];
      if (op == RedOp::min) result[i] = std::min(result[i], next[i]);
      if (op == RedOp::max) result[i] = std::max(result[i], next[i]);
    }
  }
  return result;
}

inline std::vector<std::int32_t> part(const std::vector<std::int32_t>& numbers, std::size_t begin, std::size_t count) {
  const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

/// Every rank's numbers, one rank after the other.
inline std::vector<std::int32_t> gathered(int ranks, std::size_t count, int salt = 0) {
  std::vector<std::int32_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto numbers = numbers_of(rank, count, salt);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

/// Pending calls: the addresses of their results, and the expected values.
class FakeNcclCases {
 public:
  using Result = detail::nccl::Result;
  using RedOp = detail::nccl::RedOp;

  FakeNcclCases(FakeNccl& nccl, FakeRank& rank) : nccl_(nccl), rank_(rank) {}

  void all_reduce(std::size_t count, RedOp op, int salt, bool in_place) {
    auto* const source = rank_.put(numbers_of(rank_.rank, count, salt));
    auto* const target = in_place ? source : empty(count);
    expect(nccl_.all_reduce(source, target, count, DType::i32, op, rank_.comm, rank_.stream));
    want(target, combined(rank_.ranks, count, op, salt));
  }
  void reduce(std::size_t count, RedOp op, int root, int salt, bool in_place) {
    auto* const source = rank_.put(numbers_of(rank_.rank, count, salt));
    const bool is_root = rank_.rank == root;
    auto* const target = in_place ? source : is_root ? empty(count) : nullptr;
    expect(nccl_.reduce(source, target, count, DType::i32, op, root, rank_.comm, rank_.stream));
    if (is_root) want(target, combined(rank_.ranks, count, op, salt));
  }
  void broadcast(std::size_t count, int root, int salt, bool in_place) {
    auto* const source = rank_.put(numbers_of(rank_.rank, count, salt));
    auto* const target = in_place ? source : empty(count);
    expect(nccl_.broadcast(source, target, count, DType::i32, root, rank_.comm, rank_.stream));
    want(target, numbers_of(root, count, salt));
  }
  void reduce_scatter(std::size_t count, RedOp op, int salt, bool in_place) {
    const std::size_t begin = static_cast<std::size_t>(rank_.rank) * count;
    const std::size_t all = static_cast<std::size_t>(rank_.ranks) * count;
    auto* const source = rank_.put(numbers_of(rank_.rank, all, salt));
    auto* const target = in_place ? source + begin : empty(count);
    expect(nccl_.reduce_scatter(source, target, count, DType::i32, op, rank_.comm, rank_.stream));
    want(target, part(combined(rank_.ranks, all, op, salt), begin, count));
  }
  void all_gather(std::size_t count, int salt, bool in_place) {
    auto all = std::vector<std::int32_t>(static_cast<std::size_t>(rank_.ranks) * count);
    const auto own = numbers_of(rank_.rank, count, salt);
    const std::size_t begin = static_cast<std::size_t>(rank_.rank) * count;
    if (in_place) std::ranges::copy(own, all.begin() + static_cast<std::ptrdiff_t>(begin));
    auto* const target = rank_.put(all);
    const auto* const source = in_place ? target + begin : rank_.put(own);
    expect(nccl_.all_gather(source, target, count, DType::i32, rank_.comm, rank_.stream));
    want(target, gathered(rank_.ranks, count, salt));
  }
  void send(std::size_t count, int peer, int salt) {
    auto* const source = rank_.put(numbers_of(rank_.rank, count, salt));
    expect(nccl_.send(source, count, DType::i32, peer, rank_.comm, rank_.stream));
  }
  void recv(std::size_t count, int peer, int salt) {
    auto* const target = empty(count);
    expect(nccl_.recv(target, count, DType::i32, peer, rank_.comm, rank_.stream));
    want(target, numbers_of(peer, count, salt));
  }

  void group(FunctionRef<void()> calls) {
    expect(nccl_.group_start());
    calls();
    launched(nccl_.group_end());
  }
  /// Compares all results so far.
  void check() {
    EXPECT_EQ(rank_.settled(), Result::success) << nccl_.last_error(rank_.comm);
    for (const auto& [target, numbers] : std::exchange(wanted_, {})) {
      EXPECT_EQ(rank_.get(target, numbers.size()), numbers) << "rank " << rank_.rank << " of " << rank_.ranks;
    }
  }

 private:
  [[nodiscard]] std::int32_t* empty(std::size_t count) { return rank_.put(std::vector<std::int32_t>(count, -1)); }
  void want(const std::int32_t* target, std::vector<std::int32_t> numbers) {
    wanted_.emplace_back(target, std::move(numbers));
  }
  void expect(Result result) { launched(result); }
  void launched(Result result) {
    if (result == Result::in_progress) result = rank_.settled();
    EXPECT_EQ(result, Result::success) << nccl_.last_error(rank_.comm);
  }

  FakeNccl& nccl_;
  FakeRank& rank_;
  std::vector<std::pair<const std::int32_t*, std::vector<std::int32_t>>> wanted_;
};

/// Each collective alone, and sends around a ring.
inline void check_every_call(FakeNccl& nccl, FakeRank& rank) {
  using detail::nccl::RedOp;
  FakeNcclCases cases(nccl, rank);
  for (const bool in_place : {false, true}) {
    for (const RedOp op : {RedOp::sum, RedOp::prod, RedOp::max, RedOp::min}) {
      cases.all_reduce(100, op, 0, in_place);
      cases.reduce_scatter(3, op, 1, in_place);
      cases.reduce(5, op, rank.ranks - 1, 2, in_place);
    }
    for (int root = 0; root < rank.ranks; ++root) cases.broadcast(4, root, root, in_place);
    cases.all_gather(7, 3, in_place);
    cases.check();
  }
  cases.group([&] {
    cases.send(11, (rank.rank + 1) % rank.ranks, 0);
    cases.recv(11, (rank.rank + rank.ranks - 1) % rank.ranks, 0);
  });
  cases.check();
}

/// Random groups of calls, the same on all ranks.
inline void check_random_groups(FakeNccl& nccl, FakeRank& rank, std::uint64_t seed, int groups) {
  using detail::nccl::RedOp;
  FakeNcclCases cases(nccl, rank);
  std::mt19937_64 random(seed);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<std::uint64_t>(end)); };
  for (int group = 0; group < groups; ++group) {
    cases.group([&] {
      for (int calls = 1 + below(5); calls > 0; --calls) {
        const std::size_t count = 1 + random() % 300;
        const int kind = below(6);
        const int root = below(rank.ranks);
        const int peer = below(rank.ranks);
        const bool in_place = below(2) == 1;
        if (kind == 0) cases.all_reduce(count, RedOp::sum, calls, in_place);
        if (kind == 1) cases.reduce(count, RedOp::max, root, calls, in_place);
        if (kind == 2) cases.broadcast(count, root, calls, in_place);
        if (kind == 3) cases.reduce_scatter(count, RedOp::min, calls, in_place);
        if (kind == 4) cases.all_gather(count, calls, in_place);
        if (kind == 5 && rank.rank == root) cases.send(count, peer, calls);
        if (kind == 5 && rank.rank == peer) cases.recv(count, root, calls);
      }
    });
    if (below(3) == 0) cases.check();
  }
  cases.check();
}

}  // namespace lockstep::test
