// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device/arena.hpp>

#include "collectives/compared_arguments.hpp"
#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/shared_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>

namespace lockstep::test {
namespace {

class ThreadRanks : public testing::TestWithParam<std::vector<int>> {};

TEST_P(ThreadRanks, get_the_right_bits_from_every_collective) {
  on_ranks(GetParam(), [](Communicator& comm) { check_every_collective(comm); });
}

TEST_P(ThreadRanks, can_duplicate_their_communicator_with_other_numbers_of_replicas) {
  on_ranks(GetParam(), [](Communicator& comm) {
    CommunicatorOptions options;
    options.local_replicas = 1 + comm.rank() % 2;
    Communicator other = comm.duplicate(options);
    EXPECT_EQ(other.layout().count(comm.rank()), options.local_replicas);
    EXPECT_EQ(other.layout().replicas(), comm.size() + comm.size() / 2);
    check_all_reduce(other, ReduceOp::sum);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, ThreadRanks,
                         testing::Values(std::vector{1}, std::vector{4}, std::vector{1, 1}, std::vector{2, 1, 1},
                                         std::vector{1, 3}, std::vector{2, 2}, std::vector{3, 1, 2, 2, 1},
                                         std::vector{1, 1, 1, 1, 1, 1, 1, 1}));

TEST(Communicator, works_from_several_threads_of_a_rank_on_communicators_of_their_own) {
  on_ranks({1, 1}, [](Communicator& comm) {
    Communicator other = comm.duplicate({});
    std::jthread second([&] { check_every_collective(other); });
    check_every_collective(comm);
  });
}

/// Every call with one tensor, on ranks with one replica each.
void check_calls_with_one_tensor(Communicator& comm) {
  const int rank = comm.rank();
  const int size = comm.size();
  const auto ranks = static_cast<std::size_t>(size);
  const int total = size * (size - 1) / 2;
  EXPECT_EQ(comm.all_reduce(rank, ReduceOp::sum), total);
  std::vector<float, ArenaAllocator<float>> gradient{1.0f, static_cast<float>(rank)};
  comm.all_reduce(gradient, ReduceOp::sum);
  comm.all_reduce(std::span(gradient), ReduceOp::mean);
  EXPECT_EQ(gradient[1], static_cast<float>(total));
  const std::array<int, 2> own{rank, 7};
  std::array<double, 2> means{};
  comm.all_reduce(own, means, ReduceOp::mean);
  EXPECT_EQ(means, (std::array{total / static_cast<double>(size), 7.0}));
  Plan plan = comm.prepare_all_reduce(own, means, ReduceOp::mean);
  means = {};
  plan.run();
  EXPECT_EQ(means[1], 7.0);

  int reduced = rank;
  comm.reduce(reduced, ReduceOp::sum, 0);
  EXPECT_EQ(reduced, rank == 0 ? total : rank);
  std::vector<int> sums(rank == 0 ? 2 : 0);
  comm.reduce(own, sums, ReduceOp::sum, 0);
  if (rank == 0) {
    EXPECT_EQ(sums, (std::vector{total, 7 * size}));
  }
  std::vector<int> ones(ranks, 1);
  int part = 0;
  comm.reduce_scatter(ones, part, ReduceOp::sum);
  EXPECT_EQ(part, size);

  std::vector<int> ids(ranks);
  std::iota(ids.begin(), ids.end(), 0);
  EXPECT_EQ(comm.all_gather(rank), ids);
  std::vector<int> all(ranks);
  comm.all_gather_async(std::span<const int>(&rank, 1), all).wait();
  EXPECT_EQ(all, ids);
  std::vector<int> gathered(rank == 0 ? ranks : 0);
  comm.gather(rank, gathered, 0);
  if (rank == 0) {
    EXPECT_EQ(gathered, ids);
  }
  part = -1;
  comm.scatter(gathered, part, 0);
  EXPECT_EQ(part, rank);
  std::vector<int> sent(ranks, rank);
  std::vector<int> received(ranks);
  comm.all_to_all(sent, received);
  EXPECT_EQ(received, ids);
  int value = rank == size - 1 ? 42 : 0;
  comm.broadcast(value, size - 1);
  EXPECT_EQ(value, 42);
}

/// Those with numbers of rows: replica r has r + 1.
void check_rows_with_one_tensor(Communicator& comm) {
  const int rank = comm.rank();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(comm.size()));
  std::iota(rows.begin(), rows.end(), 1);
  const auto total = static_cast<std::size_t>(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
  std::vector<std::uint16_t> own(static_cast<std::size_t>(rank) + 1, static_cast<std::uint16_t>(rank));
  std::vector<std::uint16_t> all(total);
  comm.all_gather_v(own, all, rows);
  EXPECT_EQ(all.front(), 0);
  EXPECT_EQ(all.back(), comm.size() - 1);
  std::vector<std::uint16_t> gathered(rank == 0 ? total : 0);
  comm.gather_v(own, gathered, rows, 0);
  if (rank == 0) {
    EXPECT_EQ(gathered, all);
  }
  std::vector<std::uint16_t> back(own.size());
  comm.scatter_v(gathered, back, rows, 0);
  EXPECT_EQ(back, own);
  // rank p sends p + 1 rows to every rank
  const std::vector<std::int64_t> sent(rows.size(), rank + 1);
  std::vector<std::uint16_t> out(own.size() * rows.size(), static_cast<std::uint16_t>(rank));
  std::vector<std::uint16_t> in(total);
  comm.all_to_all_v(out, in, sent, rows);
  EXPECT_EQ(in, all);
}

TEST(Communicator, takes_one_tensor_of_a_rank_in_every_collective) {
  for (const std::vector<int>& counts : {std::vector{1}, std::vector{1, 1, 1}}) {
    on_ranks(counts, [](Communicator& comm) {
      check_calls_with_one_tensor(comm);
      check_rows_with_one_tensor(comm);
    });
  }
}

TEST(Communicator, sends_one_tensor_from_rank_to_rank) {
  on_ranks({1, 2}, [](Communicator& comm) {
    std::array<float, 2> values{};
    if (comm.rank() == 0) values = {1, 2};
    if (comm.rank() == 0) {
      comm.send(values, 1);
      comm.send_async(std::span(values), 1).wait();
    } else {
      comm.recv(values, 0);
      comm.recv_async(values, 0).wait();
    }
    EXPECT_EQ(values[1], 2);
  });
}

TEST(Communicator, requires_items_of_a_rank_with_several_replicas) {
  on_ranks({1, 2}, [](Communicator& comm) {
    float value = static_cast<float>(comm.rank());
    const std::string text = error_of([&] { comm.all_reduce(std::span(&value, 1), ReduceOp::sum); });
    if (comm.rank() == 1) {
      expect_all(text, {"all_reduce: a call with one tensor requires one replica per rank, but rank 1 has 2 replicas"});
    } else {
      expect_all(text, {"unavailable:", "rank 1 has 2 replicas"});
    }
    // a broadcast has one input for all
    comm.broadcast(value, 1);
    EXPECT_EQ(value, 1.0f);
  });
}

TEST(Communicator, shows_the_line_of_every_ranks_call_in_a_mismatch) {
  std::array<std::string, 2> errors;
  on_ranks({1, 1}, [&](Communicator& comm) {
    std::vector<float> values(2, 1.0f);
    std::string& error = errors[static_cast<std::size_t>(comm.rank())];
    if (comm.rank() == 0) {
      error = error_of([&] { comm.all_reduce(values, ReduceOp::sum); });
    } else {
      error = error_of([&] { comm.broadcast(values, 0, {.name = "weights"}); });
    }
  });
  constexpr int line = __LINE__ - 5;
  for (const std::string& error : errors) {
    expect_all(error, {"all_reduce sum of f32 [2] at collectives/communicator_test.cpp:" + std::to_string(line),
                       "named \"weights\" at collectives/communicator_test.cpp:" + std::to_string(line + 2)});
  }
}

TEST(Communicator, names_the_section_of_a_long_list_in_which_tensors_differ) {
  const auto text_for = [](std::size_t tensors, std::size_t other) {
    return shared_error({1, 1}, [=](Communicator& comm) {
      std::vector<float> values(3 * tensors);
      std::vector<TensorView> outputs;
      for (std::size_t i = 0; i < tensors; ++i)
        outputs.push_back({&values[3 * i], DType::f32, Shape{comm.rank() == 1 && i == other ? 3 : 2}, Device{}});
      const std::vector<ConstTensorView> inputs(outputs.begin(), outputs.end());
      std::vector<Item> items;
      for (std::size_t i = 0; i < tensors; ++i)
        items.push_back({std::span(inputs).subspan(i, 1), std::span(outputs).subspan(i, 1)});
      comm.all_reduce(items, ReduceOp::max);
    });
  };
  expect_all(text_for(16, 15), {"of 16 tensors", "; the first difference is in tensor 15 (counted from 0)"});
  expect_all(text_for(40, 39), {"of 40 tensors", "; the first difference is in tensor 39 (counted from 0)"});
  expect_all(text_for(40, 4), {"; the first difference is in tensors 3 to 5 (counted from 0)"});
  EXPECT_EQ(text_for(40, 0).find("first difference"), std::string::npos);  // the descriptions show tensor 0
}

TEST(Communicator, compares_whether_a_repeated_call_asks_for_its_name_only) {
  const std::string error = shared_error({1, 1}, [](Communicator& comm) {
    std::vector<float> values(2);
    comm.all_reduce(values, ReduceOp::max, {.name = "x", .only_name = true});
    comm.all_reduce(values, ReduceOp::max, {.name = "x", .only_name = comm.rank() == 0});
  });
  expect_all(error, {"rank 0 is in x at ", "rank 1 calls all_reduce max of f32 [2] named \"x\""});
}

TEST(Communicator, compares_further_arguments_of_its_caller_while_they_are_in_force) {
  for (const std::vector<int>& layout : {std::vector{1, 1}, std::vector{1, 1, 1}}) {
    on_ranks(layout, [](Communicator& comm) {
      const int rank = comm.rank();
      const auto sum = [&] { return comm.all_reduce(rank == 0 ? 1 : 2, ReduceOp::sum); };
      const int expected = sum();
      const auto sum_with = [&](const std::string& arguments) {
        const detail::ComparedArguments compared(comm, arguments);
        return sum();
      };
      EXPECT_EQ(sum_with("axis 0"), expected);
      EXPECT_EQ(sum_with("axis 0"), expected);
      expect_all(error_of([&] { static_cast<void>(sum_with(rank == 0 ? "axis 0" : "axis 1")); }),
                 {"mismatch: ranks disagree on operation #", ": rank 0 calls all_reduce sum of i32 [1] with axis 0 at ",
                  ", rank 1 calls all_reduce sum of i32 [1] with axis 1 at "});
      EXPECT_EQ(sum(), expected);
      expect_all(
          error_of([&] { static_cast<void>(rank == 0 ? sum_with("axis 0") : sum()); }),
          {"rank 0 calls all_reduce sum of i32 [1] with axis 0 at ", "rank 1 calls all_reduce sum of i32 [1] at "});
      const std::string long_text(100, 'x');
      EXPECT_EQ(sum_with(long_text), expected);
      expect_all(error_of([&] { static_cast<void>(sum_with(long_text + (rank == 0 ? "a" : "b"))); }),
                 {" with xxxxxx", "xxx... at "});
    });
  }
}

TEST(Communicator, compares_the_arguments_of_all_callers_that_contain_one_another) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const detail::ComparedArguments outer(comm, "outer");
    {
      const detail::ComparedArguments inner(comm, comm.rank() == 0 ? "one" : "other");
      expect_all(error_of([&] { comm.barrier(); }), {"barrier with outer, one", "barrier with outer, other"});
    }
    comm.barrier();
    expect_all(
        error_of([&] { comm.rank() == 0 ? comm.barrier() : static_cast<void>(comm.all_reduce(1, ReduceOp::sum)); }),
        {"rank 0 calls barrier with outer", "rank 1 calls all_reduce sum of i32 [1] with outer"});
  });
}

TEST(Communicator, refuses_an_operation_and_a_plan_that_do_not_exist) {
  Communicator comm = self_communicator();
  float value = 0;
  expect_all(error_of([&] { comm.all_reduce(std::span(&value, 1), static_cast<ReduceOp>(99)); }),
             {"invalid_argument: all_reduce: op is ReduceOp(99), which does not exist; the values are 0 to 7"});
  Plan plan = comm.prepare_all_reduce(std::span(&value, 1), ReduceOp::sum);
  Plan other = std::move(plan);
  expect_all(error_of([&] { plan.run(); }),
             {"failed_precondition: run of a plan: the plan has been moved from"});  // NOLINT(bugprone-use-after-move)
  other.run();
}

TEST(Communicator, shows_only_the_name_of_a_call_that_asks_for_it) {
  const auto text_for = [](const char* name_of_rank_1, std::int64_t extent_of_rank_1) {
    return shared_error({1, 1}, [=](Communicator& comm) {
      std::vector<float> values(comm.rank() == 0 ? 2 : static_cast<std::size_t>(extent_of_rank_1));
      comm.broadcast(values, 0, {.name = comm.rank() == 0 ? "the start" : name_of_rank_1, .only_name = true});
    });
  };
  expect_all(text_for("the end", 2), {": rank 0 is in the start at collectives/communicator_test.cpp:",
                                      ", rank 1 is in the end at collectives/communicator_test.cpp:"});
  expect_all(text_for("the start", 3), {": rank 0 is in the start of f32 [2] at collectives/communicator_test.cpp:",
                                        ", rank 1 is in the start of f32 [3] at collectives/communicator_test.cpp:"});
}

TEST(Communicator, shows_the_line_of_a_call_that_meets_its_deadline) {
  std::string error;
  on_ranks(
      {1, 1},
      [&](Communicator& comm) {
        if (comm.rank() == 0) error = error_of([&] { comm.barrier(); });
      },
      short_deadline(200));
  expect_all(error, {"deadline_exceeded:", "barrier at collectives/communicator_test.cpp:", "rank 1"});
}

TEST(Communicator, shows_no_line_for_options_that_have_none) {
  on_ranks({1, 1}, [&](Communicator& comm) {
    ReduceOptions options;
    options.name = comm.rank() == 0 ? "a" : "b";
    const std::string error = error_of([&] { comm.barrier(options); });
    EXPECT_EQ(error.find(".hpp:"), std::string::npos) << error;
    EXPECT_EQ(error.find(".cpp:"), std::string::npos) << error;
  });
}

TEST(Communicator, honours_any_order_by_the_canonical_one_where_there_is_no_backend) {
  on_ranks({1, 2},
           [](Communicator& comm) { check_all_reduce(comm, ReduceOp::sum, {.order = Order::any, .name = "free"}); });
}

TEST(Communicator, says_which_order_it_takes) {
  const Communicator by_default = self_communicator();
  EXPECT_EQ(by_default.order(), Order::canonical);
  EXPECT_EQ(by_default.order(DeviceKind::gpu), Order::any);
  for (const Order order : {Order::canonical, Order::any}) {
    CommunicatorOptions options;
    options.order = order;
    ASSERT_EQ(setenv("LOCKSTEP_ORDER", "canonical", 1), 0);
    const Communicator tightened = self_communicator(options);
    ASSERT_EQ(unsetenv("LOCKSTEP_ORDER"), 0);
    const Communicator as_told = self_communicator(options);
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::gpu}) {
      EXPECT_EQ(as_told.order(kind), order);
      EXPECT_EQ(tightened.order(kind), Order::canonical);
    }
  }
}

TEST(Communicator, completes_a_dropped_request) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::vector<double> value{1};
    const ConstTensorView input = view_of(std::span<double>(value));
    const TensorView output = view_of(std::span<double>(value));
    const Item item{std::span(&input, 1), std::span(&output, 1)};
    { const Request dropped = comm.all_reduce_async(std::span(&item, 1), ReduceOp::sum); }
    EXPECT_EQ(value[0], 2);
  });
}

}  // namespace
}  // namespace lockstep::test
