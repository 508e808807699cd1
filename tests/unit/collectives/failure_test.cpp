// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// No rank hangs: every mistake becomes the same error on every rank, and the communicator works afterwards.

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/detail/propagate.hpp>

#include "support/collective_cases.hpp"
#include "support/expect_error.hpp"
#include "support/late_ranks.hpp"
#include "support/ranks.hpp"
#include "support/shared_error.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

/// Sums `count` elements of `dtype`.
void sum(Communicator& comm, DType dtype, const Shape& shape, ReduceOp op = ReduceOp::sum, std::string_view name = {}) {
  Bytes bytes(static_cast<std::size_t>(shape.element_count()) * size_of(dtype));
  const ConstTensorView input{bytes.data(), dtype, shape};
  const Item item{std::span(&input, 1), {}};
  comm.all_reduce(std::span(&item, 1), op, {.order = std::nullopt, .name = name});
}

TEST(Mismatch, of_shapes_names_both_sides_on_every_rank) {
  const std::string error =
      shared_error(3, [](Communicator& comm) { sum(comm, DType::f32, Shape{comm.rank() == 2 ? 4 : 3}); });
  expect_all(error, {"mismatch:", "rank 0 calls all_reduce sum of f32 [3]", "rank 2 calls all_reduce sum of f32 [4]",
                     "operation #0"});
}

TEST(Mismatch, also_ends_calls_that_a_rank_has_posted_behind_it) {
  std::latch others_have_posted(2);  // else the mismatch is known before they post the second call
  on_ranks(
      {1, 1, 1},
      [&](Communicator& comm) {
        std::vector<float> values(comm.rank() == 1 ? 4U : 3U);
        const std::string expected = "rank 1 calls all_reduce sum of f32 [4]";
        if (comm.rank() == 1) {  // knows of the mismatch before it makes another call
          others_have_posted.wait();
          expect_all(error_of([&] { comm.all_reduce(values, ReduceOp::sum); }), {"mismatch:", expected});
        } else {
          Request first = comm.all_reduce_async(values, ReduceOp::sum);
          Request second = comm.barrier_async();
          Request third = comm.barrier_async();
          others_have_posted.count_down();
          expect_all(error_of([&] { third.wait(); }), {"mismatch:", expected});
          expect_all(error_of([&] { second.wait(); }), {"mismatch:", expected});
          expect_all(error_of([&] { first.wait(); }), {"mismatch:", expected});
        }
        // the mismatch, which all ranks have seen, and two calls that rank 1 has not made
        EXPECT_EQ(comm.completed_operations(), comm.rank() == 1 ? 1 : 3);
        expect_all(error_of([&] { comm.barrier(); }), {"mismatch:", "Communicator::recover"});
        EXPECT_EQ(comm.recover(), 2);
        check_all_reduce(comm, ReduceOp::sum);
      },
      minutes_to_fail());
}

TEST(Mismatch, is_thrown_until_all_ranks_recover_even_if_they_have_completed_equal_numbers_of_operations) {
  std::array<std::latch, 2> are_posted{std::latch(1), std::latch(1)};
  on_ranks(
      {1, 1},
      [&](Communicator& comm) {
        // in each round, one rank has posted a call more than the other when it learns of the mismatch
        for (int round = 0; round < 2; ++round) {
          std::latch& is_posted = are_posted.at(static_cast<std::size_t>(round));
          if (comm.rank() == round) {
            Request first = comm.barrier_async({.name = "first"});
            Request second = comm.barrier_async({.name = "second"});
            is_posted.count_down();
            expect_all(error_of([&] { second.wait(); }), {"mismatch:", "first", "other"});
            expect_all(error_of([&] { first.wait(); }), {"mismatch:", "first", "other"});
          } else {
            is_posted.wait();
            expect_all(error_of([&] { comm.barrier({.name = "other"}); }), {"mismatch:", "first", "other"});
          }
        }
        EXPECT_EQ(comm.completed_operations(), 3);
        for (int i = 0; i < 2; ++i) {
          expect_all(error_of([&] { comm.barrier(); }),
                     {"mismatch:", "the same number of operations", "Communicator::recover"});
        }
        EXPECT_EQ(comm.recover(), 5);
        check_all_reduce(comm, ReduceOp::sum);
      },
      minutes_to_fail());
}

TEST(Mismatch, never_lets_calls_match_that_are_not_the_same) {
  std::latch second_is_posted(1);  // else the mismatch is known before, and the second calls match
  on_ranks(
      {1, 1},
      [&](Communicator& comm) {
        std::vector<float> first(comm.rank() == 1 ? 4U : 3U);
        std::vector<float> second(8);
        std::vector<float> third(8);
        std::atomic<bool> knows = false;
        Request posted;
        if (comm.rank() == 1) second_is_posted.wait();
        comm.all_reduce_async(first, ReduceOp::sum).when_complete([&](const Error*) { knows = true; });
        if (comm.rank() == 0) {
          posted = comm.all_reduce_async(second, ReduceOp::sum);
          second_is_posted.count_down();
        }
        while (!knows) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (comm.rank() == 0) {
          expect_all(error_of([&] { posted.wait(); }), {"mismatch:", "f32 [3]", "f32 [4]"});
        }
        // the third call of rank 0, and the second one of rank 1
        const std::string error = error_of([&] { comm.all_reduce(comm.rank() == 0 ? third : second, ReduceOp::sum); });
        expect_all(error, {"mismatch:", "Communicator::recover"});
        (void)comm.recover();
        check_all_reduce(comm, ReduceOp::sum);
      },
      minutes_to_fail());
}

TEST(Mismatch, that_a_rank_does_not_know_of_does_not_hide_its_abort) {
  on_ranks(
      {1, 1},
      [](Communicator& comm) {
        std::vector<float> values(comm.rank() == 1 ? 4U : 3U);
        if (comm.rank() == 0) {
          Request request = comm.all_reduce_async(values, ReduceOp::sum);
          while (comm.completed_operations() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          comm.abort("disk full");
          expect_all(error_of([&] { request.wait(); }), {"mismatch:"});
        } else {
          expect_all(error_of([&] { comm.all_reduce(values, ReduceOp::sum); }), {"mismatch:"});
          expect_all(error_of([&] { comm.barrier(); }), {"unavailable:", "disk full"});
        }
        check_all_reduce(comm, ReduceOp::sum);
      },
      minutes_to_fail());
}

TEST(Mismatch, is_found_when_counts_agree_and_shapes_do_not) {
  expect_all(
      shared_error(2, [](Communicator& comm) { sum(comm, DType::f32, comm.rank() == 0 ? Shape{2, 3} : Shape{3, 2}); }),
      {"mismatch:", "[2, 3]", "[3, 2]"});
}

TEST(Mismatch, of_dtypes_ops_names_and_kinds_is_found) {
  expect_all(
      shared_error(2, [](Communicator& comm) { sum(comm, comm.rank() == 0 ? DType::f32 : DType::i32, Shape{3}); }),
      {"f32", "i32"});
  expect_all(shared_error(2,
                          [](Communicator& comm) {
                            sum(comm, DType::f32, Shape{3}, comm.rank() == 0 ? ReduceOp::sum : ReduceOp::max);
                          }),
             {"sum", "max"});
  expect_all(shared_error(4,
                          [](Communicator& comm) {
                            sum(comm, DType::f32, Shape{3}, ReduceOp::sum, comm.rank() == 3 ? "weights" : "biases");
                          }),
             {"weights", "biases", "rank 3"});
  expect_all(shared_error(2,
                          [](Communicator& comm) {
                            if (comm.rank() == 0) {
                              comm.barrier();
                            } else {
                              sum(comm, DType::f32, Shape{3});
                            }
                          }),
             {"barrier", "all_reduce"});
}

TEST(Mismatch, of_list_lengths_is_found) {
  expect_all(shared_error(2,
                          [](Communicator& comm) {
                            const std::vector<TensorCase> tensors(comm.rank() == 0 ? 2 : 3, {DType::f32, 4});
                            const Batch batch(tensors, comm.layout(), comm.rank());
                            comm.all_reduce(batch.items(), ReduceOp::sum);
                          }),
             {"2 tensors", "3 tensors"});
}

TEST(Deadline, names_the_rank_that_never_calls) {
  std::vector<std::jthread> at_once;
  for (const int ranks : {2, 3, 6}) {
    at_once.emplace_back([ranks] {
      const int absent = ranks / 2;
      LateRanks late(ranks, {absent});
      const auto body = [&](Communicator& comm) { late.call(comm, [&] { comm.barrier(one_second); }); };
      const std::string error = shared_error(ranks, body);
      expect_all(error, {"deadline_exceeded:", "barrier", "timed out after 1 s"});
      if (!virtual_time::is_active() && ranks > 2) return;  // other ranks may be late, too
      expect_all(error, {"timed out after 1 s waiting for rank " + std::to_string(absent) +
                         ", which made this call too late or not at all"});
    });
  }
}

TEST(Deadline, names_all_that_are_missing) {
  LateRanks late(4, {2, 3});
  const auto body = [&](Communicator& comm) { late.call(comm, [&] { sum(comm, DType::f32, Shape{3}); }); };
  const std::string error = shared_error(4, body, short_deadline());
  expect_all(error, {"deadline_exceeded:"});
  if (virtual_time::is_active()) {
    expect_all(error, {"waiting for ranks 2, 3, which made this call too late or not at all"});
  }
}

/// The heartbeat that a rank has sent in a long wait says nothing of the next operation.
TEST(Deadline, names_a_rank_that_has_sent_a_heartbeat_in_an_earlier_operation) {
  if (!virtual_time::is_active()) GTEST_SKIP() << "a rank is late by a part of the deadline";
  on_ranks(
      {1, 1},
      [](Communicator& comm) {
        if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(700));
        comm.barrier();
        if (comm.rank() == 1) expect_error(Code::deadline_exceeded, {"waiting for rank 0"}, [&] { comm.barrier(); });
        // destroyed before, its communicator would tell the other rank that it has left
        std::this_thread::sleep_for(std::chrono::seconds(5));
      },
      short_deadline());
}

TEST(Failure, with_which_one_rank_aborts_reaches_the_others_once) {
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) {
      comm.abort("the step function threw: no more apples");
    } else {
      const std::string error = error_of([&] { comm.barrier(); });
      expect_all(error, {"unavailable:", "rank 1", "no more apples"});
    }
    comm.barrier();
    check_every_collective(comm);
  });
}

TEST(Failure, shows_the_line_of_the_abort_or_of_the_call_that_failed) {
  on_ranks({1, 1}, [](Communicator& comm) {
    constexpr int line = __LINE__;
    const Item item{};
    if (comm.rank() == 1) {
      comm.abort("no more apples");
      EXPECT_NE(error_of([&] { comm.all_reduce(std::span(&item, 1), ReduceOp::sum); }), "none");
      EXPECT_NE(error_of([&] { comm.broadcast(std::span(&item, 1), 1, {.name = "pears"}); }), "none");
    } else {
      const auto place = [](int lines) { return "collectives/failure_test.cpp:" + std::to_string(line + lines); };
      expect_all(error_of([&] { comm.barrier(); }), {"rank 1 failed at " + place(3) + ": no more apples"});
      expect_all(error_of([&] { comm.barrier(); }), {"rank 1 failed at " + place(4) + ": invalid_argument: "});
      expect_all(error_of([&] { comm.barrier(); }), {"rank 1 failed at " + place(5) + ": invalid_argument: "});
    }
    comm.barrier();
  });
}

TEST(Failure, ends_requests_that_are_under_way) {
  on_ranks({1, 1}, [](Communicator& comm) {
    if (comm.rank() == 0) {
      Request request = comm.barrier_async();
      Request later = comm.barrier_async();
      expect_all(error_of([&] { request.wait(); }), {"unavailable:", "gone"});
      expect_all(error_of([&] { later.wait(); }), {"unavailable:", "gone"});
      request.wait();  // reported once
    } else {
      comm.abort("gone");
    }
    comm.barrier();
  });
}

TEST(Failure, of_an_argument_on_one_rank_is_unavailable_on_the_others) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const std::string error = error_of([&] {
      const Item item{};
      if (comm.rank() == 0) {
        comm.all_reduce(std::span(&item, 1), ReduceOp::sum);
      } else {
        sum(comm, DType::f32, Shape{3});
      }
    });
    expect_all(error, {comm.rank() == 0 ? "invalid_argument:" : "unavailable:", "0 inputs"});
    comm.barrier();
  });
}

TEST(Failure, of_the_same_argument_on_all_ranks_is_the_same_error) {
  expect_all(shared_error(3,
                          [](Communicator& comm) {
                            const Item item{};
                            try {
                              comm.all_reduce(std::span(&item, 1), ReduceOp::sum);
                            } catch (const Error& error) {
                              throw Error(error.code(), "0 inputs");  // the text names the rank
                            }
                          }),
             {"invalid_argument:", "0 inputs"});
}

TEST(Failure, can_happen_again_and_again) {
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    for (int round = 0; round < 50; ++round) {
      if (comm.rank() == round % 3) {
        comm.abort("round " + std::to_string(round));
      } else {
        expect_all(error_of([&] { comm.barrier(); }), {"round " + std::to_string(round)});
      }
      comm.barrier();
    }
  });
}

TEST(Failure, may_follow_another_with_nothing_between_them) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    on_ranks(
        {1, 1},
        [](Communicator& comm) {
          for (int round = 0; round < 2; ++round) {
            comm.barrier();
            if (comm.rank() == 1) {
              comm.abort("first");
              comm.abort("second");
            } else {
              expect_all(error_of([&] { comm.barrier(); }), {"unavailable:", "first"});
              expect_all(error_of([&] { comm.barrier(); }), {"unavailable:", "second"});
            }
            comm.barrier();
          }
        },
        minutes_to_fail());
  }
}

TEST(Failure, may_follow_another_that_waits_for_an_outstanding_operation) {
  for (const int aborts : {2, 3}) {
    std::latch has_aborted(1);
    on_ranks(
        {1, 1, 1},
        [&](Communicator& comm) {
          if (comm.rank() == 1) {
            Request outstanding = comm.barrier_async();
            EXPECT_FALSE(outstanding.wait_for(std::chrono::milliseconds(10)));  // others can see that rank 1 is in it
            for (int i = 0; i < aborts; ++i) comm.abort("failure " + std::to_string(i));
            has_aborted.count_down();
            outstanding.wait();
          } else {
            has_aborted.wait();
            comm.barrier();
            for (int i = 0; i < aborts; ++i)
              expect_all(error_of([&] { comm.barrier(); }),
                         {"unavailable:", "rank 1 failed at ", ": failure " + std::to_string(i)});
          }
          check_every_collective(comm);
        },
        minutes_to_fail());
  }
}

TEST(Failure, that_all_ranks_find_is_thrown_once_with_operations_outstanding) {
  for (const int slow : {0, 1, 2}) {
    on_ranks(
        {1, 1, 1},
        [&](Communicator& comm) {
          Request first = comm.barrier_async();
          Request second = comm.barrier_async();
          // by then the failure of the others has ended the second operation of this rank
          if (comm.rank() == slow) std::this_thread::sleep_for(std::chrono::milliseconds(200));
          const Item item{};
          expect_all(error_of([&] { comm.all_reduce(std::span(&item, 1), ReduceOp::sum); }),
                     {"invalid_argument:", "0 inputs"});
          static_cast<void>(error_of([&] { first.wait(); }));
          static_cast<void>(error_of([&] { second.wait(); }));
          EXPECT_EQ(error_of([&] { comm.barrier(); }), "none");
          check_every_collective(comm);
        },
        minutes_to_fail());
  }
}

/// Throws an exception of type T on rank 1, through two calls of propagate; returns what the others get.
template <class T>
void propagate_on_rank_1(Communicator& comm, const T& exception, detail::FoundBy found_by, const std::string& text) {
  const auto fail = [&] {
    detail::propagate(comm, [&] { detail::propagate(comm, [&] { throw T(exception); }, found_by); });
  };
  if (comm.rank() == 1) {
    EXPECT_THROW(fail(), T);
  } else {
    expect_all(error_of([&] { comm.barrier(); }), {"unavailable:", "rank 1 failed: ", text});
  }
  EXPECT_EQ(error_of([&] { comm.barrier(); }), "none");
}

TEST(Failure, of_any_type_is_propagated_once) {
  on_ranks(
      {1, 1, 1},
      [](Communicator& comm) {
        using detail::FoundBy;
        const Error error(Code::data_loss, "worms", {1, 0, "an apple", 3});
        for (int twice = 0; twice < 2; ++twice) {
          propagate_on_rank_1(comm, error, FoundBy::this_rank, "data_loss: worms");
          propagate_on_rank_1(comm, std::bad_alloc(), FoundBy::this_rank, "bad_alloc");
          propagate_on_rank_1(comm, std::bad_alloc(), FoundBy::all_ranks, "bad_alloc");
          propagate_on_rank_1(comm, std::logic_error("rot"), FoundBy::this_rank, "rot");
          propagate_on_rank_1(comm, 17, FoundBy::this_rank, "an exception of type int, which is not a std::exception");
        }
      },
      minutes_to_fail());
}

TEST(Failure, of_a_collective_is_not_propagated_again) {
  on_ranks(
      {1, 1, 1},
      [](Communicator& comm) {
        const std::string error =
            error_of([&] { detail::propagate(comm, [&] { sum(comm, DType::f32, Shape{comm.rank() == 1 ? 4 : 3}); }); });
        expect_all(error, {"mismatch:", "[3]", "[4]"});
        EXPECT_EQ(error_of([&] { comm.barrier(); }), "none");
      },
      minutes_to_fail());
}

TEST(Failure, that_all_ranks_find_is_not_propagated) {
  on_ranks(
      {1, 1, 1},
      [](Communicator& comm) {
        Request outstanding = comm.barrier_async();
        EXPECT_THROW(detail::propagate(
                         comm, [] { throw std::logic_error("rot"); }, detail::FoundBy::all_ranks),
                     std::logic_error);
        EXPECT_EQ(error_of([&] { outstanding.wait(); }), "none");
      },
      minutes_to_fail());
}

TEST(Failure, that_was_propagated_on_one_communicator_is_propagated_on_another) {
  on_ranks(
      {1, 1, 1},
      [](Communicator& comm) {
        Communicator other = comm.duplicate({});
        const Error error(Code::data_loss, "worms");
        if (comm.rank() == 1) {
          EXPECT_THROW(detail::propagate(comm, [&] { detail::propagate(other, [&] { throw Error(error); }); }), Error);
        } else {
          expect_all(error_of([&] { other.barrier(); }), {"rank 1 failed: ", "worms"});
          expect_all(error_of([&] { comm.barrier(); }), {"rank 1 failed: ", "worms"});
        }
        comm.barrier();
        other.barrier();
      },
      minutes_to_fail());
}

/// Calls barrier until it succeeds; the errors before.
int barriers_that_failed(Communicator& comm) {
  int failed = 0;
  while (error_of([&] { comm.barrier(); }) != "none") ++failed;
  return failed;
}

TEST(Failure, lets_what_all_ranks_have_entered_complete_and_then_works_again) {
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> values(200'000, 1.0F);
      const ConstTensorView input = view_of(std::span<const float>(values));
      const TensorView output = view_of(std::span<float>(values));
      const Item item{std::span(&input, 1), std::span(&output, 1)};
      Request request = comm.all_reduce_async(std::span(&item, 1), ReduceOp::sum);
      if (comm.rank() == round % 3) comm.abort("changed its mind");
      if (error_of([&] { request.wait(); }) == "none") {
        EXPECT_EQ(values, std::vector<float>(200'000, 3.0F));
      }
      EXPECT_LE(barriers_that_failed(comm), 1);
      check_all_reduce(comm, ReduceOp::sum);
    }
  });
}

TEST(Failure, leaves_no_data_behind_that_a_later_operation_could_take) {
  on_ranks({1, 1}, [](Communicator& comm) {
    for (int round = 0; round < 100; ++round) {
      std::vector<int> value(static_cast<std::size_t>(1 + round % 7), comm.rank() == 0 ? round : -1);
      const ConstTensorView input = view_of(std::span<const int>(value));
      const TensorView output = view_of(std::span<int>(value));
      const Item item{std::span(&input, comm.rank() == 0 ? 1 : 0), std::span(&output, 1)};
      Request request = comm.broadcast_async(std::span(&item, 1), 0);
      if (comm.rank() == 1) comm.abort("gone");
      if (error_of([&] { request.wait(); }) == "none") {
        EXPECT_EQ(value.front(), round);
      }
      EXPECT_LE(barriers_that_failed(comm), 1);
      check_broadcast(comm, 0);
    }
  });
}

TEST(Communicator, duplicates_in_order_with_what_is_under_way) {
  on_ranks({1, 1}, [](Communicator& comm) {
    Request request = comm.barrier_async();
    if (comm.rank() == 1) request.wait();
    Communicator other = comm.duplicate({});
    request.wait();
    check_all_reduce(other, ReduceOp::sum);
  });
}

TEST(Communicator, finds_a_wrong_number_of_replicas_on_all_ranks) {
  expect_all(shared_error(2,
                          [](Communicator& comm) {
                            CommunicatorOptions options;
                            options.local_replicas = comm.rank() == 1 ? 0 : 1;
                            (void)comm.duplicate(options);
                          }),
             {"invalid_argument: duplicate: local_replicas is 0 on rank 1; it must be at least 1"});
}

TEST(Communicator, accepts_any_deadline) {
  CommunicatorOptions options;
  options.fail_after = options.warn_after = std::chrono::milliseconds::max();
  on_ranks(
      {1, 1},
      [](Communicator& comm) {
        Request request = comm.barrier_async();
        EXPECT_TRUE(request.wait_for(std::chrono::nanoseconds::max()));
      },
      options);
}

}  // namespace
}  // namespace lockstep::test
