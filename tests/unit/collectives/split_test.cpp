// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Several communicators: parts of one, and of several threads.

#include "support/late_ranks.hpp"
#include "support/shared_error.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <latch>

namespace lockstep::test {
namespace {

CommunicatorOptions with_replicas(int count) {
  CommunicatorOptions options;
  options.local_replicas = count;
  return options;
}

TEST(Split, brings_ranks_of_one_color_together_in_the_order_of_their_keys) {
  on_ranks({1, 2, 1, 3, 1}, [](Communicator& comm) {
    const int color = comm.rank() % 2;
    // 4, 2, 0 and 3, 1
    auto part = comm.split(color, -comm.rank(), with_replicas(1 + comm.rank()));
    ASSERT_TRUE(part);
    const std::vector<int> members = color == 0 ? std::vector{4, 2, 0} : std::vector{3, 1};
    ASSERT_EQ(part->size(), static_cast<int>(members.size()));
    for (int rank = 0; rank < part->size(); ++rank)
      EXPECT_EQ(part->layout().count(rank), 1 + members[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(members[static_cast<std::size_t>(part->rank())], comm.rank());
    check_every_collective(*part);
    check_all_reduce(comm, ReduceOp::sum);
  });
}

TEST(Split, orders_equal_keys_by_rank) {
  on_ranks({1, 1, 1, 1}, [](Communicator& comm) {
    auto part = comm.split(17, comm.rank() == 0 ? 1 : 0, {});
    ASSERT_TRUE(part);
    EXPECT_EQ(part->rank(), (comm.rank() + 3) % 4);
  });
}

TEST(Split, gives_nothing_to_a_rank_with_a_negative_color) {
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    auto part = comm.split(comm.rank() == 1 ? -1 : 0, 0, {});
    EXPECT_EQ(part.has_value(), comm.rank() != 1);
    if (part) {
      EXPECT_EQ(part->size(), 2);
      check_all_reduce(*part, ReduceOp::sum);
    }
    EXPECT_FALSE(comm.split(-comm.rank() - 1, 0, {}));
    comm.barrier();
  });
}

TEST(Split, can_be_done_again_and_again_and_to_parts) {
  on_ranks({1, 1, 1, 1}, [](Communicator& comm) {
    for (int round = 0; round < 3; ++round) {
      auto half = comm.split(comm.rank() / 2, 0, {});
      ASSERT_TRUE(half);
      auto single = half->split(half->rank(), 0, with_replicas(2));
      ASSERT_TRUE(single);
      EXPECT_EQ(single->size(), 1);
      check_all_reduce(*single, ReduceOp::sum);
      check_all_reduce(*half, ReduceOp::sum);
    }
  });
}

TEST(Split, takes_the_options_that_it_is_given) {
  LateRanks late(2, {1});
  on_ranks({1, 1}, [&](Communicator& comm) {
    CommunicatorOptions options = short_deadline(300);
    options.name = "pair";
    auto part = comm.split(0, 0, options);
    ASSERT_TRUE(part);
    EXPECT_EQ(part->options().name, "pair");
    const std::string error = error_of([&] { late.call(comm, [&] { part->barrier(); }); });
    expect_all(error, {"deadline_exceeded:", "of pair", "waiting for rank 1"});
  });
}

TEST(Split, is_late_when_a_rank_does_not_come) {
  LateRanks late(3, {1});
  const auto body = [&](Communicator& comm) { late.call(comm, [&] { (void)comm.split(0, 0, {}); }); };
  const std::string error = shared_error(3, body, short_deadline());
  expect_all(error, {"deadline_exceeded:", ", split at collectives/split_test.cpp:"});
  if (virtual_time::is_active()) expect_all(error, {"waiting for rank 1"});
}

TEST(Communicators, of_several_threads_work_at_once) {
  on_ranks({1, 2, 1}, [](Communicator& comm) {
    auto pair = comm.split(comm.rank() == 2 ? -1 : 0, 0, with_replicas(2));
    Communicator copy = comm.duplicate(with_replicas(comm.local_replicas()));
    auto reversed = comm.split(1, -comm.rank(), {});
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { check_every_collective(copy); });
    threads.emplace_back([&] { check_every_collective(*reversed); });
    if (pair) threads.emplace_back([&] { check_every_collective(*pair); });
    check_every_collective(comm);
  });
}

TEST(Communicators, that_two_ranks_use_in_opposite_order_are_late_and_name_both_operations) {
  std::vector<std::string> errors(2);
  std::latch both_are_late(2);
  on_ranks(
      {1, 1},
      [&](Communicator& first) {
        CommunicatorOptions options = minutes_to_fail();
        options.name = "second";
        Communicator second = first.duplicate(options);
        std::vector<float> values(3);
        const auto use = [&](bool is_first) {
          if (is_first) {
            first.barrier({.name = "epoch end", .fail_after = std::chrono::seconds(1)});
          } else {
            second.all_reduce(std::span(values), ReduceOp::sum, {.fail_after = std::chrono::seconds(1)});
          }
        };
        errors[static_cast<std::size_t>(first.rank())] = error_of([&] { use(first.rank() == 0); });
        both_are_late.arrive_and_wait();
        // each has timed out waiting for the other, and throws that failure once; then both work
        (void)error_of([&] { use(first.rank() != 0); });
        first.barrier();
        second.barrier();
      },
      minutes_to_fail());
  for (const std::string& error : errors) expect_all(error, {"deadline_exceeded:"});
  if (!virtual_time::is_active()) return;  // a rank may be late in its first call, too
  expect_all(errors[0],
             {"deadline_exceeded:",
              "barrier named \"epoch end\" at collectives/split_test.cpp:120: timed out after 1 s waiting for rank 1",
              "rank 1 waits in operation #0 of second, all_reduce sum of f32 [3]"});
  expect_all(errors[1], {"deadline_exceeded:",
                         "of second, all_reduce sum of f32 [3] at collectives/split_test.cpp:122: timed out after 1 s "
                         "waiting for rank 0",
                         "rank 0 waits in operation #3 of communicator, barrier named \"epoch end\""});
}

TEST(Communicators, with_other_timeouts_on_some_ranks_are_a_mismatch_on_all_ranks) {
  on_ranks({1, 2, 1}, [](Communicator& comm) {
    CommunicatorOptions options = short_deadline(comm.rank() == 2 ? 70'000 : 80'000);
    const std::string rule = "fail_after is 80000 ms on rank 0 but 70000 ms on rank 2; it must be equal on all ranks";
    EXPECT_TRUE(
        error_of([&] { static_cast<void>(comm.duplicate(options)); }).starts_with("mismatch: duplicate: " + rule));
    const int color = comm.rank() == 1 ? -1 : 3;
    EXPECT_TRUE(
        error_of([&] { static_cast<void>(comm.split(color, 0, options)); }).starts_with("mismatch: split: " + rule));
    std::optional<Communicator> part = comm.split(comm.rank() == 2 ? 1 : 0, 0, options);  // one timeout in each part
    check_every_collective(*part);
    check_every_collective(comm);
  });
  const std::vector<CommunicatorOptions> options{short_deadline(1000), short_deadline(2000)};
  expect_all(error_of([&] { static_cast<void>(thread_communicators(options)); }),
             {"mismatch: thread_communicators: fail_after is 1000 ms on rank 0 but 2000 ms on rank 1"});
}

TEST(Split, works_after_one_that_a_rank_did_not_begin) {
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    if (comm.rank() == 1) {
      comm.abort("not now");
    } else {
      EXPECT_NE(error_of([&] { (void)comm.split(0, 0, {}); }), "");
    }
    (void)comm.recover();
    auto part = comm.split(0, 0, {});
    ASSERT_TRUE(part);
    EXPECT_EQ(part->size(), 3);
    check_all_reduce(*part, ReduceOp::sum);
  });
}

TEST(Communicators, name_each_operation_in_which_missing_ranks_wait_once) {
  std::latch has_failed(1);
  on_ranks(
      {1, 1, 1, 1},
      [&](Communicator& first) {
        CommunicatorOptions options = minutes_to_fail();
        options.name = "second";
        const Communicator second = first.duplicate(options);
        if (first.rank() == 0) {
          try {
            first.barrier({.fail_after = std::chrono::seconds(1)});
            ADD_FAILURE() << "rank 3 has not come";
          } catch (const Error& error) {
            if (virtual_time::is_active()) {
              expect_all(error.text(),
                         {"waiting for ranks 1, 2, 3", "; ranks 1, 2 wait in operation #0 of second, barrier"});
              EXPECT_EQ(error.rank(), 3);
            }
          }
          has_failed.count_down();
        } else if (first.rank() == 3) {
          has_failed.wait();
        }
        second.barrier();
        if (first.rank() != 0) {
          EXPECT_NE(error_of([&] { first.barrier(); }), "none");
        }
        first.barrier();
      },
      minutes_to_fail());
}

}  // namespace
}  // namespace lockstep::test
