// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank that destroys its communicator while others use theirs, or dies.

#include "collectives/make_communicator.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "transport/loopback/loopback_transport.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using Body = std::function<void(Communicator)>;

/// Runs `body` on one thread per rank; each gets the only handle of its communicator.
void on_ranks_that_own(int ranks, const Body& body) {
  CommunicatorOptions options;
  options.fail_after = std::chrono::minutes(20);
  auto communicators = thread_communicators(std::vector<CommunicatorOptions>(static_cast<std::size_t>(ranks), options));
  std::vector<std::jthread> threads;
  for (Communicator& communicator : communicators) {
    threads.emplace_back([&body, mine = std::move(communicator)]() mutable {
      try {
        body(std::move(mine));
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "boom");
      }
    });
  }
}

/// The calls of the other ranks fail soon after rank 1 has left, and name it.
void check_others(const Body& leave, const std::string& text) {
  on_ranks_that_own(3, [&](Communicator comm) {
    comm.barrier();
    if (comm.rank() == 1) {
      leave(std::move(comm));
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    expect_all(error_of([&] { comm.barrier(); }), {"unavailable: ", "rank 1", text});
    expect_all(error_of([&] { (void)comm.all_reduce(1.0F, ReduceOp::sum); }),
               {"unavailable:", "no longer works, because of an earlier failure: ", text});
    expect_all(error_of([&] { comm.barrier_async().wait(); }),
               {"unavailable:", "no longer works, because of an earlier failure: ", text});
    float value = 0;
    expect_all(error_of([&] { comm.recv(value, 1); }), {"unavailable: recv #0 of communicator from rank 1", text});
    expect_all(error_of([&] { comm.send(value, 1); }), {"unavailable: send #0 of communicator from rank ", text});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
  });
}

TEST(Presence, of_a_rank_that_has_destroyed_its_communicator_is_not_awaited) {
  check_others([](const Communicator&) {}, "rank 1 has destroyed its communicator");
}

TEST(Presence, of_a_rank_that_leaves_by_an_exception_is_not_awaited) {
  check_others(
      [](Communicator comm) {
        const Communicator last = std::move(comm);
        throw std::runtime_error("boom");
      },
      "an exception has destroyed its communicator");
}

TEST(Presence, does_not_matter_to_operations_at_which_the_rank_had_arrived) {
  for (int round = 0; round < 20; ++round) {
    on_ranks_that_own(3, [](Communicator comm) {
      std::vector<float> values(100'000, 1.0F);
      for (int i = 0; i < 3; ++i) comm.all_reduce(std::span(values), ReduceOp::max);
      if (comm.rank() == 1) return;  // at once
      EXPECT_EQ(values.back(), 1.0F);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
  }
}

TEST(Presence, of_a_rank_that_has_left_is_not_awaited_by_a_receive) {
  on_ranks_that_own(2, [](Communicator comm) {
    std::vector<float> values(10, 2.0F);
    const TensorView view(values.data(), DType::f32, Shape{10}, Device{});
    const ConstTensorView input = view;
    if (comm.rank() == 1) {
      comm.send(std::span(&input, 1), 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    comm.recv(std::span(&view, 1), 1);  // sent before rank 1 has left
    expect_all(error_of([&] { comm.recv(std::span(&view, 1), 1); }),
               {"unavailable:", "rank 1 has destroyed its communicator"});
  });
}

/// Ranks 0 to 3 are one node and 4 to 7 another one. Rank 3 dies; rank 4 learns it soon from rank 0, throws and
/// destroys its communicator. To the other ranks of its node, messages of rank 0 take longer than the time after which
/// a rank that has left is named.
TEST(Presence, of_a_rank_that_has_left_after_a_failure_is_not_named_in_its_place) {
  constexpr int ranks = 8;
  constexpr int dead = 3;
  detail::LoopbackHooks hooks;
  hooks.delay = [](int source, int target) { return std::chrono::milliseconds(source < 4 && target > 4 ? 700 : 1); };
  std::atomic<bool> has_died = false;
  hooks.has_ended = [&](int, int rank) { return has_died && rank == dead; };
  auto transports = detail::make_loopback_transports({0, 0, 0, 0, 4, 4, 4, 4}, true, hooks);
  std::vector<std::string> errors(ranks);
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto at = static_cast<std::size_t>(rank);
        std::optional<Communicator> comm = CommunicatorAccess::make(std::move(transports[at]), minutes_to_fail(),
                                                                    ReplicaLayout(std::vector<int>(ranks, 1)));
        comm->barrier();
        if (rank == dead) {
          has_died = true;
          while (failed < ranks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
          return;
        }
        errors[at] = error_of([&] { comm->barrier(); });
        ++failed;
        if (rank != 4) {
          while (failed < ranks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      });
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == dead) continue;
    const std::string& error = errors[static_cast<std::size_t>(rank)];
    expect_all(error, {"unavailable: ", "operation #1 of communicator", "rank 3 has died"});
    EXPECT_EQ(error, errors[0]) << "rank " << rank;
  }
}

/// Rank 1 finds that a message does not match, or refuses it, and destroys its communicator at once.
TEST(Presence, of_a_rank_that_has_left_after_its_message_failed_gives_the_reason) {
  for (const bool is_mismatch : {true, false}) {
    auto transports = detail::make_loopback_transports(2, true);
    std::vector<std::string> errors(2);
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
          const Communicator comm = CommunicatorAccess::make(std::move(transports[static_cast<std::size_t>(rank)]),
                                                             minutes_to_fail(), ReplicaLayout(std::vector<int>(2, 1)));
          std::vector<float> values(7);
          errors[static_cast<std::size_t>(rank)] = error_of([&] {
            if (rank == 0) {
              comm.send(std::span<const float>(values), 1);
            } else if (is_mismatch) {
              comm.recv(std::span(values).first(3), 0);
            } else {
              const TensorView invalid(nullptr, DType::f32, Shape{7}, Device{});
              comm.recv(std::span(&invalid, 1), 0);
            }
          });
        });
      }
    }
    const std::string reason = is_mismatch ? "rank 1 calls recv of f32 [3]" : "rank 1 failed";
    expect_all(errors[0], {is_mismatch ? "mismatch: " : "unavailable: ", reason});
  }
}

}  // namespace
}  // namespace lockstep::test
