// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The engine alone, with operations that do what a test says: what its deadlines count, and what an exception at any
// point leaves behind.

#include "collectives/engine/engine.hpp"
#include "support/errors.hpp"
#include "unit/collectives/scripted.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::detail {
namespace {

using std::chrono::milliseconds;
using test::error_of;
using test::expect_all;
using Clock = std::chrono::steady_clock;

/// Runs `body(engine, rank)` on a thread for each of `ranks` ranks.
void on_engines(int ranks, EngineLimits limits, const std::function<void(Engine&, int)>& body) {
  const auto all = engines(ranks, limits);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(*all[static_cast<std::size_t>(rank)], rank); });
}

TEST(EngineDeadline, is_reached_by_a_rank_that_polls_every_two_seconds) {
  const auto both = engines(2, {.fail_ms = 1500});
  const auto operation = scripted();
  both[0]->post(operation);
  EXPECT_EQ(error_of([&] {
              for (int polls = 0; polls < 5; ++polls) {
                if (both[0]->test(*operation)) break;
                std::this_thread::sleep_for(milliseconds(2000));
              }
            }).substr(0, 18),
            "deadline_exceeded:");
}

TEST(EngineDeadline, comes_after_the_failure_that_another_rank_sent_while_this_one_was_stopped) {
  const auto both = engines(2, {.fail_ms = 2000});
  const auto operation = scripted();
  both[0]->post(operation);
  EXPECT_FALSE(both[0]->test(*operation));
  both[1]->abort("no more apples", {});
  std::this_thread::sleep_for(milliseconds(3000));
  expect_all(error_of([&] { both[0]->wait(*operation); }), {"unavailable:", "no more apples"});
}

TEST(EngineDeadline, counts_from_the_last_progress) {
  on_engines(2, {.fail_ms = 1000}, [](Engine& engine, int rank) {
    const Clock::time_point start = Clock::now();
    const auto tenths = [start] { return static_cast<std::uint64_t>((Clock::now() - start) / milliseconds(100)); };
    // both ranks work for 3 s, but only rank 0 sees data move; rank 1 hears of it
    const auto operation = scripted({.advance = [=] { return tenths() > 30; },
                                     .progress = [=] { return DataProgress{rank == 0 ? tenths() : 0, 0, 0}; },
                                     .awaited = {1 - rank}});
    const std::string error = error_of([&] { engine.run(operation); });
    if (virtual_time::is_active()) {
      EXPECT_EQ(error, "none");
    }
  });
}

TEST(EngineDeadline, says_how_far_the_data_came_and_names_no_rank_that_responds) {
  on_engines(2, {.fail_ms = 1000}, [](Engine& engine, int rank) {
    constexpr std::uint64_t mib = 1024 * 1024;
    const auto operation = scripted({.advance = [] { return false; },
                                     .progress = [] { return DataProgress{1, 37 * mib, 512 * mib}; },
                                     .awaited = {1 - rank}});
    const auto error = test::thrown_by([&] { engine.run(operation); });
    if (!virtual_time::is_active()) return;  // any rank may be late
    ASSERT_TRUE(error);
    EXPECT_EQ(error->context().rank, -1);
    expect_all(error->what(), {"timed out after 1 s without progress (moved 37.0 of 512.0 MiB): data of rank ",
                               "did not arrive, but rank "});
  });
}

/// Rank 2 has done its part and is in no call; rank 1 waits for its data, and rank 0 for that of rank 1.
TEST(EngineDeadline, names_the_silent_rank_for_which_a_rank_waits_that_responds) {
  on_engines(4, {.fail_ms = 1000}, [](Engine& engine, int rank) {
    const auto operation = scripted({.advance = [=] { return rank >= 2; }, .awaited = {rank + 1}});
    if (rank == 0) operation->set_fail_after(milliseconds(900));  // rank 1 fails later
    const auto error = test::thrown_by([&] { engine.run(operation); });
    if (!virtual_time::is_active()) return;  // any rank may be late
    if (rank >= 2) {
      EXPECT_FALSE(error);
      return;
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->context().rank, 2);
    expect_all(error->what(), {"timed out after ", " s waiting for rank 2"});
  });
}

TEST(EngineDeadline, names_the_silent_ranks_if_the_others_wait_for_one_another) {
  on_engines(3, {.fail_ms = 1000}, [](Engine& engine, int rank) {
    const auto operation = scripted({.advance = [=] { return rank == 2; }, .awaited = {1 - rank}});
    const auto error = test::thrown_by([&] { engine.run(operation); });
    if (!virtual_time::is_active()) return;  // any rank may be late
    if (rank == 2) {
      EXPECT_FALSE(error);
      return;
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->context().rank, -1);
    expect_all(error->what(), {"did not arrive, but rank ", " responded; no heartbeat from rank 2"});
  });
}

/// Ranks 0 and 1 wait for rank 2, and say so. When it has come, rank 1 does its part and is in no call any more.
TEST(EngineDeadline, names_a_rank_that_has_responded_only_before_all_ranks_came) {
  on_engines(3, {.fail_ms = 1000}, [](Engine& engine, int rank) {
    const auto operation = scripted({.advance = [=] { return rank != 0; }, .awaited = {1}});
    if (rank == 2) std::this_thread::sleep_for(milliseconds(800));
    const auto error = test::thrown_by([&] { engine.run(operation); });
    if (!virtual_time::is_active()) return;  // any rank may be late
    if (rank != 0) {
      EXPECT_FALSE(error);
      return;
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->context().rank, 1);
    expect_all(error->what(), {"timed out after 1 s waiting for rank 1"});
  });
}

/// As a transfer whose link is cut after 1.3 s: rank 1 has responded before, and is never heard of again.
TEST(EngineDeadline, names_a_rank_that_has_responded_only_before_the_last_progress) {
  on_engines(2, {.fail_ms = 1000}, [](Engine& engine, int rank) {
    const Clock::time_point start = Clock::now();
    const auto tenths = [start] { return (Clock::now() - start) / milliseconds(100); };
    const auto moved = [=] { return static_cast<std::uint64_t>(rank == 0 ? std::min<std::int64_t>(tenths(), 13) : 0); };
    const auto operation = scripted({.advance = [=] { return rank == 1 && tenths() > 8; },
                                     .progress = [=] { return DataProgress{moved(), 0, 0}; },
                                     .awaited = {1 - rank}});
    const auto error = test::thrown_by([&] { engine.run(operation); });
    if (!virtual_time::is_active()) return;  // any rank may be late
    if (rank == 1) {
      EXPECT_FALSE(error);
      return;
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->context().rank, 1);
    expect_all(error->what(), {"timed out after 1 s waiting for rank 1"});
  });
}

TEST(EngineDeadline, of_the_total_ends_an_operation_whose_data_moves) {
  on_engines(
      2, {.fail_ms = virtual_time::is_active() ? 1000 : 240'000, .total_ms = 2500}, [](Engine& engine, int rank) {
        auto count = std::make_shared<std::uint64_t>(0);
        const auto operation = scripted({.advance = [] { return false; },
                                         .progress = [=] { return DataProgress{++*count, 1024, 4096}; },
                                         .awaited = {1 - rank}});
        expect_all(error_of([&] { engine.run(operation); }),
                   {"deadline_exceeded:", "not complete after 2.5 s", "fail_after_total", "(moved 1.0 of 4.0 KiB)"});
      });
}

TEST(EngineFailures, beyond_the_last_epoch_lose_the_communicator_on_all_ranks) {
  on_engines(2, {.fail_ms = 240'000, .most_epochs = 3}, [](Engine& engine, int rank) {
    for (int failure = 0; failure < 3; ++failure) {
      engine.run(scripted({.advance = [] { return true; }}));
      if (rank == 0) engine.abort("no more apples", {});
      if (rank == 1) expect_all(error_of([&] { engine.run(scripted()); }), {"no more apples"});
    }
    for (int call = 0; call < 2; ++call) {
      expect_all(error_of([&] { engine.run(scripted({.advance = [] { return true; }})); }),
                 {"unavailable:", "test no longer works", "3 failures are the most"});
    }
  });
}

/// Rank 1's operation throws in `script`; afterwards all ranks work again.
void check_that_the_next_works(const Scripted::Script& script, const std::string& text) {
  on_engines(3, {.fail_ms = 240'000}, [&](Engine& engine, int rank) {
    const auto operation = rank == 1 ? scripted(script) : scripted({.advance = [] { return false; }});
    expect_all(error_of([&] { engine.run(operation); }), {text});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of([&] { engine.run(scripted()); }), "none");
  });
}

TEST(EngineFault, before_the_agreement_leaves_a_communicator_that_works) {
  check_that_the_next_works({.arrive = [] { throw Error(Code::unavailable, "out of shared memory"); }},
                            "unavailable: ");
  check_that_the_next_works({.arrive = [] { throw std::bad_alloc(); }}, "bad_alloc");
}

TEST(EngineFault, during_an_operation_that_knows_what_moves_leaves_a_communicator_that_works) {
  check_that_the_next_works({.start = [] { throw std::bad_alloc(); }}, "bad_alloc");
  check_that_the_next_works({.advance = []() -> bool { throw std::length_error("too long"); }}, "too long");
}

/// Rank 1 completes an operation that then fails on the others.
void diverge(Engine& engine, int rank, std::atomic<bool>& is_complete) {
  engine.run(scripted());
  const auto advance = [rank, &is_complete] {
    if (is_complete) throw Error(Code::unavailable, "out of shared memory");
    return rank == 1;
  };
  const std::string error = error_of([&] { engine.run(scripted({.advance = advance})); });
  EXPECT_EQ(error == "none", rank == 1) << error;
  if (rank == 1) {
    is_complete = true;
    EXPECT_NE(error_of([&] { engine.run(scripted()); }), "none");
  }
}

TEST(EngineRetry, of_different_operations_is_refused_until_all_ranks_recover) {
  std::atomic<bool> is_complete = false;
  on_engines(3, {.fail_ms = 240'000}, [&](Engine& engine, int rank) {
    diverge(engine, rank, is_complete);
    EXPECT_EQ(engine.completed(), rank == 1 ? 2 : 1);
    for (int i = 0; i < 2; ++i) {
      expect_all(error_of([&] { engine.run(scripted()); }),
                 {"mismatch:", "rank 0 had completed 1, rank 1 2", "Communicator::recover"});
    }
    engine.run(recovery());
    engine.continue_at(3);
    EXPECT_EQ(engine.completed(), 3);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of([&] { engine.run(scripted()); }), "none");
    EXPECT_EQ(engine.completed(), 6);
  });
}

TEST(EngineRecovery, does_not_throw_a_failure_that_another_rank_had_before) {
  on_engines(3, {.fail_ms = 240'000}, [](Engine& engine, int rank) {
    if (rank == 2) {
      std::this_thread::sleep_for(milliseconds(200));  // the others wait in their recovery
      engine.abort("late failure", std::source_location::current());
    }
    int tries = 0;
    engine.run_recovery([&] {
      ++tries;
      return recovery();
    });
    EXPECT_EQ(tries, rank == 2 ? 1 : 2);
    EXPECT_EQ(error_of([&] { engine.run(scripted()); }), "none");
  });
}

TEST(EngineRecovery, throws_its_own_failure_on_all_ranks) {
  const auto soon = [] {
    auto operation = recovery();
    operation->set_fail_after(milliseconds(2000));
    return operation;
  };
  std::latch others_have_failed(2);
  on_engines(3, {.fail_ms = 240'000}, [&](Engine& engine, int rank) {
    if (rank == 2) others_have_failed.wait();
    const std::string error = error_of([&] { engine.run_recovery(soon); });
    if (rank != 2) others_have_failed.count_down();
    expect_all(error, {"deadline_exceeded:"});
    if (virtual_time::is_active()) expect_all(error, {"waiting for rank 2"});
    engine.run_recovery(recovery);
    EXPECT_EQ(error_of([&] { engine.run(scripted()); }), "none");
  });
}

}  // namespace
}  // namespace lockstep::detail
