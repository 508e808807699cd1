// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives whose parts differ: what is refused, what ranks disagree on, and large numbers. That the right bytes
// arrive at every layout is communicator_test's.

#include "support/function_ref.hpp"
#include "support/late_ranks.hpp"
#include "support/shared_error.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <utility>

namespace lockstep::test {
namespace {

using Rows = std::vector<std::int64_t>;

/// Memory for views of f32.
class Parts : public testing::Test {
 protected:
  ConstTensorView in(std::size_t offset, const Shape& shape, DType dtype = DType::f32) {
    return {memory_.data() + offset, dtype, shape};
  }
  TensorView out(std::size_t offset, const Shape& shape, DType dtype = DType::f32) {
    return {memory_.data() + offset, dtype, shape, Device{}};
  }

  using Inputs = std::vector<ConstTensorView>;
  using Outputs = std::vector<TensorView>;

  /// The error of a rank with two replicas, the only rank.
  static std::string refusal(const Inputs& inputs, const Outputs& outputs,
                             FunctionRef<void(Communicator&, std::span<const Item>)> call) {
    CommunicatorOptions options;
    options.local_replicas = 2;
    Communicator comm = self_communicator(options);
    const Item item{inputs, outputs};
    const std::string error = error_of([&] { call(comm, std::span(&item, 1)); });
    comm.barrier();  // still in order
    return error;
  }
  static std::string gather_refusal(const Rows& rows, const Inputs& inputs, const Outputs& outputs) {
    return refusal(inputs, outputs, [&](Communicator& comm, auto items) { comm.all_gather_v(items, rows); });
  }
  static std::string scatter_refusal(const Inputs& inputs, const Outputs& outputs, int root = 0) {
    return refusal(inputs, outputs, [&](Communicator& comm, auto items) { comm.scatter(items, root); });
  }
  static std::string exchange_refusal(const Inputs& inputs, const Outputs& outputs) {
    return refusal(inputs, outputs, [&](Communicator& comm, auto items) { comm.all_to_all(items); });
  }
  static std::string exchange_refusal(const Rows& send_rows, const Rows& receive_rows, const Inputs& inputs,
                                      const Outputs& outputs) {
    return refusal(inputs, outputs,
                   [&](Communicator& comm, auto items) { comm.all_to_all_v(items, send_rows, receive_rows); });
  }

  std::array<float, 64> memory_{};
};

TEST_F(Parts, of_a_gather_are_accepted_when_they_fit) {
  EXPECT_EQ(gather_refusal({2, 1}, {in(0, {2, 3}), in(8, {1, 3})}, {out(16, {3, 3}), out(32, {9})}), "none");
  EXPECT_EQ(gather_refusal({2, 0}, {in(0, {2}), in(8, {0})}, {out(0, {2})}), "none");  // the very view of an input
}

TEST_F(Parts, of_a_gather_must_have_the_rows_that_are_named) {
  expect_all(gather_refusal({2, 1}, {in(0, {2, 3}), in(8, {2, 3})}, {}),
             {"invalid_argument: all_gather_v: the input is f32 [2, 3] on replica 1",
              "must be f32 [1, 3], because the argument rows gives it 1 row"});
  expect_all(gather_refusal({2, 1}, {in(0, {2, 3}), in(8, {1, 4})}, {}),
             {"[1, 4] on replica 1", "f32 [1, 3]", "the shape of a row must be those of the input of replica 0"});
  expect_all(gather_refusal({2, 1}, {in(0, {2}), in(8, {1}, DType::i32)}, {}), {"i32 [1] on replica 1", "f32 [1]"});
  expect_all(gather_refusal({2, 1}, {in(0, {2}), in(8, {1})}, {out(16, {4})}),
             {"output 0 has 4 elements", "the inputs of all replicas (2) have 3 in total (shape [3])"});
  expect_all(gather_refusal({2, 1}, {in(0, {}), in(8, {})}, {}), {"the tensor is a scalar", "rank 1 or more"});
}

TEST_F(Parts, need_sensible_numbers_of_rows) {
  const Inputs inputs{in(0, {1}), in(8, {1})};
  expect_all(gather_refusal({1}, inputs, {}), {"all_gather_v: rows has 1 entry;", "pass 2, one for each replica"});
  expect_all(gather_refusal({1, 1, 1}, inputs, {}), {"rows has 3 entries"});
  expect_all(gather_refusal({1, -4}, inputs, {}), {"rows[1] is -4", "at least 0"});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_all(gather_refusal({most, 1}, inputs, {}), {"rows: the sum of the rows is above 2^63 - 1"});
  expect_all(exchange_refusal({1, 1, 1}, {1, 1, 1, 1}, inputs, {}),
             {"all_to_all_v: send_rows has 3 entries", "pass 4"});
  expect_all(exchange_refusal({1, 1, 1, 1}, {1, 1}, inputs, {}), {"receive_rows has 2 entries", "pass 4"});
}

TEST_F(Parts, may_be_numbered_for_each_item) {
  CommunicatorOptions options;
  options.local_replicas = 2;
  Communicator comm = self_communicator(options);
  memory_ = {1, 2, 3, 4};
  const Inputs first{in(0, {1}), in(1, {2})};
  const Inputs second{in(2, {2}), in(4, {0})};
  const Outputs first_output{out(16, {3})};
  const Outputs second_output{out(32, {2})};
  const std::vector<Item> items{{first, first_output}, {second, second_output}};
  comm.all_gather_v(items, Rows{1, 2, 2, 0});
  EXPECT_EQ(std::vector(memory_.begin() + 16, memory_.begin() + 19), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(std::vector(memory_.begin() + 32, memory_.begin() + 34), (std::vector<float>{3, 4}));
}

TEST_F(Parts, of_a_scatter_must_make_the_whole) {
  EXPECT_EQ(scatter_refusal({in(0, {4})}, {out(8, {2}), out(16, {2})}), "none");
  expect_all(scatter_refusal({in(0, {5})}, {out(8, {2}), out(16, {2})}),
             {"the input is f32 [5] on the root, rank 0; it must have 4 elements of f32, those of the outputs of all "
              "replicas (2)"});
  expect_all(scatter_refusal({in(0, {4}, DType::i32)}, {out(8, {2}), out(16, {2})}),
             {"i32 [4] on the root, rank 0", "of f32"});
  expect_all(scatter_refusal({in(0, {4})}, {out(8, {2}), out(16, {1})}),
             {"output 1 has shape [1]", "the first one has [2]"});
  expect_all(scatter_refusal({in(0, {4})}, {out(8, {2})}),
             {"has 1 output, but rank 0 has 2 replicas; pass one output for each replica"});
  expect_all(
      scatter_refusal({}, {out(8, {2}), out(16, {2})}),
      {"has 0 inputs on rank 0, which is the root (root is 0); only the root passes an input, and it passes one"});
  expect_all(scatter_refusal({in(0, {4})}, {out(8, {2}), out(16, {2})}, 3), {"root is 3", "0 to 0"});
  expect_all(scatter_refusal({in(0, {4})}, {out(8, {2}), out(8, {2})}), {"overlaps"});
  expect_all(scatter_refusal({in(0, {4})}, {out(8, {2}), out(1, {2})}), {"output 1 overlaps input 0 by 8 bytes"});
}

TEST_F(Parts, of_an_exchange_must_fit_each_other) {
  const Outputs outputs{out(16, {4}), out(32, {4})};
  EXPECT_EQ(exchange_refusal({in(0, {4}), in(8, {4})}, outputs), "none");
  EXPECT_EQ(exchange_refusal({in(0, {4}), in(8, {4})}, {out(8, {4}), out(0, {4})}), "none");  // in place
  expect_all(exchange_refusal({in(0, {3}), in(8, {3})}, outputs),
             {"the size of its first axis must be a multiple of the number of replicas, 2"});
  expect_all(exchange_refusal({in(0, {4}), in(8, {2})}, outputs), {"[2] on replica 1", "one dtype and shape"});
  expect_all(exchange_refusal({in(0, {4}), in(8, {4})}, {out(16, {4}), out(32, {2})}), {"output 1", "2 elements"});
  expect_all(exchange_refusal({in(0, {4}), in(8, {4})}, {out(16, {4}), out(18, {4})}), {"overlaps"});
  expect_all(exchange_refusal({in(0, {4}), in(8, {4})}, {}), {"0 outputs", "2 replicas"});
}

TEST_F(Parts, of_an_uneven_exchange_must_fit_each_other) {
  const Inputs inputs{in(0, {3}), in(8, {1})};
  EXPECT_EQ(exchange_refusal({1, 2, 0, 1}, {1, 0, 2, 1}, inputs, {out(16, {1}), out(32, {3})}), "none");
  expect_all(
      exchange_refusal({1, 2, 0, 1}, {1, 0, 3, 1}, inputs, {out(16, {1}), out(32, {4})}),
      {"replica 0 sends 2 rows to replica 1 by its send_rows", "replica 1 receives 3 from it by its receive_rows"});
  expect_all(exchange_refusal({1, 3, 0, 1}, {1, 0, 3, 1}, inputs, {out(16, {1}), out(32, {4})}),
             {"the input is f32 [3] on replica 0", "must be f32 [4], because the argument send_rows gives it 4 rows"});
  expect_all(
      exchange_refusal({1, 2, 0, 1}, {1, 0, 2, 1}, inputs, {out(16, {1}), out(32, {4})}),
      {"the output is f32 [4] on replica 1", "must be f32 [3], because the argument receive_rows gives it 3 rows"});
}

/// all_gather_v of rows without elements, of which there may be many.
void gather_nothing(Communicator& comm, const Rows& rows) {
  const auto shape = [&](int replica) { return Shape{rows[static_cast<std::size_t>(replica)], 0}; };
  std::vector<ConstTensorView> inputs;
  for (int i = 0; i < comm.local_replicas(); ++i)
    inputs.emplace_back(nullptr, DType::f32, shape(comm.layout().first(comm.rank()) + i));
  const Item item{inputs, {}};
  comm.all_gather_v(std::span(&item, 1), rows);
}

TEST_F(Parts, may_lie_in_the_larger_tensor_only_where_the_call_has_them) {
  const auto gather_call = [](Communicator& comm, auto items) { comm.all_gather(items); };
  const auto reduce_call = [](Communicator& comm, auto items) { comm.reduce_scatter(items, ReduceOp::max); };
  for (int i = 0; i < 16; ++i) memory_[static_cast<std::size_t>(i)] = static_cast<float>(i);
  EXPECT_EQ(refusal({in(0, {4}), in(4, {4})}, {out(0, {8})}, gather_call), "none");
  EXPECT_EQ(memory_[7], 7.0F);
  expect_all(refusal({in(0, {4}), in(3, {4})}, {out(0, {8})}, gather_call),
             {"all_gather: input 1 overlaps output 0 by 16 bytes", "its replica's part of an output"});
  expect_all(refusal({in(4, {4}), in(0, {4})}, {out(0, {8})}, gather_call), {"overlaps output 0"});
  expect_all(refusal({in(0, {4}), in(16, {4})}, {out(0, {8}), out(4, {8})}, gather_call), {"overlaps output 0"});
  EXPECT_EQ(scatter_refusal({in(0, {8})}, {out(0, {4}), out(4, {4})}), "none");
  expect_all(scatter_refusal({in(0, {8})}, {out(4, {4}), out(16, {4})}),
             {"scatter: output 0 overlaps input 0 by 16 bytes", "its replica's part of the input"});
  EXPECT_EQ(refusal({in(0, {8}), in(8, {8})}, {out(0, {4}), out(12, {4})}, reduce_call), "none");
  EXPECT_EQ(memory_[3], 11.0F);
  EXPECT_EQ(memory_[15], 15.0F);
  EXPECT_EQ(refusal({in(0, {8}), in(8, {8})}, {out(0, {4}), out(8, {4})}, reduce_call), "none");
  expect_all(refusal({in(0, {8}), in(8, {8})}, {out(4, {4}), out(20, {4})}, reduce_call),
             {"reduce_scatter: output 0 overlaps input 0", "its replica's part of the input"});
  expect_all(refusal({in(0, {8}), in(8, {8})}, {out(8, {4}), out(20, {4})}, reduce_call),
             {"input 1 overlaps output 0"});
}

TEST(UnevenParts, have_numbers_of_64_bits) {
  on_ranks({1, 2}, [](Communicator& comm) { gather_nothing(comm, {5'000'000'000, 3, 9'000'000'000}); });
}

TEST(UnevenParts, are_a_mismatch_where_ranks_name_other_numbers) {
  expect_all(shared_error({1, 2, 1},
                          [](Communicator& comm) {
                            gather_nothing(comm, comm.rank() == 1 ? Rows{1, 2, 4, 4} : Rows{1, 4, 2, 4});
                          }),
             {"mismatch:", "rank 0 calls all_gather_v of f32 [11, 0] with rows 1,4,2,4",
              "rank 1 calls all_gather_v of f32 [11, 0] with rows 1,2,4,4"});
}

TEST(UnevenParts, are_a_mismatch_also_where_the_text_has_no_room_for_them) {
  const std::string error = shared_error(std::vector<int>{20, 20}, [](Communicator& comm) {
    Rows rows(40, 7);
    std::swap(rows[30], rows[31] += comm.rank());
    gather_nothing(comm, rows);
  });
  expect_all(error,
             {"mismatch:", "7,7,7,7...", "; the first difference is in the numbers of rows of replicas 30 to 32"});
}

TEST(UnevenExchange, is_a_mismatch_where_sender_and_receiver_differ) {
  for (const auto& counts :
       {std::vector{1, 1, 1}, std::vector{2, 1, 3}, std::vector{1, 2}, std::vector{1, 1, 1, 1, 1}}) {
    for (const auto& rows : {std::pair(5, 4), std::pair(0, 2), std::pair(100'000, 0)}) {
      const std::string error = shared_error(
          counts, [&rows](Communicator& comm) { exchange_rows(comm, DType::f32, rows.first, rows.second); });
      expect_all(error, {"mismatch: operation #0", "all_to_all_v of f32 in rows of shape [3]", "replica 2 (rank ",
                         "sends " + std::to_string(rows.first) + " rows to replica 0 (rank 0)",
                         "of that replica has " + std::to_string(rows.second)});
    }
  }
}

TEST(UnevenExchange, names_rank_replica_and_operation_in_its_error) {
  on_ranks({1, 2}, [](Communicator& comm) {
    comm.barrier();
    try {
      exchange_rows(comm, DType::u8, 1, 2);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_EQ(error.replica(), 2);
      EXPECT_EQ(error.operation(), "all_to_all_v");
      EXPECT_EQ(error.sequence(), 1);
    }
    exchange_rows(comm, DType::u8, 2, 2);
  });
}

TEST(UnevenExchange, that_differs_also_ends_calls_that_are_posted_behind_it) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const std::vector<std::int64_t> rows(2, comm.rank() + 1);
    const std::vector<float> sent(static_cast<std::size_t>(2 * rows[0]));
    std::vector<float> received(sent.size());
    if (comm.rank() == 0) {
      Request first = comm.all_to_all_v_async(sent, received, rows, rows);
      Request second = comm.barrier_async();
      EXPECT_EQ(error_of([&] { second.wait(); }), error_of([&] { first.wait(); }));
    } else {
      expect_all(error_of([&] { comm.all_to_all_v(sent, received, rows, rows); }), {"mismatch: operation #0"});
    }
    (void)comm.recover();
    check_all_reduce(comm, ReduceOp::sum);
  });
}

TEST(UnevenExchange, is_a_mismatch_where_rows_differ_in_shape) {
  expect_all(
      shared_error({1, 1, 1},
                   [](Communicator& comm) { exchange_rows(comm, comm.rank() == 1 ? DType::u8 : DType::f32, 1, 1); }),
      {"mismatch:", "rank 0 calls all_to_all_v of f32 in rows of shape [3]", "rank 1", "of u8 in rows of shape [3]"});
}

TEST(Scatter, is_a_mismatch_where_parts_or_roots_differ) {
  const auto scatter = [](Communicator& comm, std::int64_t count, int root) {
    std::deque<PartItem> parts;
    parts.emplace_back(RowCase{DType::i32, {}});
    if (comm.rank() == root) parts.front().give(count * 3, Bytes(static_cast<std::size_t>(count) * 12));
    parts.front().take(count);
    comm.scatter(items_of(parts), root);
  };
  expect_all(shared_error(3, [&](Communicator& comm) { scatter(comm, comm.rank() == 2 ? 5 : 4, 0); }),
             {"mismatch:", "scatter of i32 [4] with root 0", "scatter of i32 [5] with root 0"});
  expect_all(shared_error(3, [&](Communicator& comm) { scatter(comm, 4, comm.rank() == 1 ? 1 : 0); }),
             {"mismatch:", "root 0", "root 1"});
}

TEST(Scatter, is_late_when_a_rank_does_not_come) {
  LateRanks late(3, {2});
  const auto body = [&](Communicator& comm) { late.call(comm, [&] { exchange_rows(comm, DType::f32, 1, 1); }); };
  const std::string error = shared_error(3, body, short_deadline());
  expect_all(error, {"deadline_exceeded:", "all_to_all_v"});
  if (virtual_time::is_active()) expect_all(error, {"waiting for rank 2"});
}

TEST(Requests, of_parts_complete_in_any_order_of_waiting) {
  on_ranks({2, 1}, [](Communicator& comm) {
    std::vector<float> whole{1, 2, 3, 4, 5, 6};
    std::vector<float> parts(static_cast<std::size_t>(comm.local_replicas()) * 2);
    std::vector<float> exchanged(static_cast<std::size_t>(comm.local_replicas()) * 6);
    std::vector<float> gathered(6);
    std::vector<ConstTensorView> part_inputs;
    std::vector<TensorView> part_outputs;
    std::vector<ConstTensorView> whole_inputs(static_cast<std::size_t>(comm.local_replicas()),
                                              view_of(std::span<const float>(whole)));
    std::vector<TensorView> whole_outputs;
    for (int i = 0; i < comm.local_replicas(); ++i) {
      const auto part = std::span(parts).subspan(static_cast<std::size_t>(i) * 2, 2);
      part_inputs.push_back(view_of(std::span<const float>(part)));
      part_outputs.push_back(view_of(part));
      whole_outputs.push_back(view_of(std::span(exchanged).subspan(static_cast<std::size_t>(i) * 6, 6)));
    }
    const ConstTensorView root_input = view_of(std::span<const float>(whole));
    const TensorView all = view_of(std::span(gathered));
    const Item scatter{std::span(&root_input, comm.rank() == 1 ? 1 : 0), part_outputs};
    const Item gather{part_inputs, std::span(&all, 1)};
    const Item exchange_item{whole_inputs, whole_outputs};
    const Rows rows{2, 2, 2};
    Request scattered = comm.scatter_async(std::span(&scatter, 1), 1);
    Request gathering = comm.all_gather_v_async(std::span(&gather, 1), rows);
    Request exchanging = comm.all_to_all_async(std::span(&exchange_item, 1));
    exchanging.wait();
    gathering.wait();
    scattered.wait();
    EXPECT_EQ(gathered, whole);
    const int first = comm.layout().first(comm.rank());
    for (int i = 0; i < comm.local_replicas(); ++i) {
      const auto at = static_cast<std::size_t>(i) * 6;
      const auto part = static_cast<float>(2 * (first + i));
      EXPECT_EQ(std::vector(exchanged.begin() + static_cast<std::ptrdiff_t>(at),
                            exchanged.begin() + static_cast<std::ptrdiff_t>(at) + 6),
                (std::vector{part + 1, part + 2, part + 1, part + 2, part + 1, part + 2}));
    }
  });
}

}  // namespace
}  // namespace lockstep::test
