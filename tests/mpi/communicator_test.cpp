// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/interop/mpi.hpp>

#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/pair_cases.hpp"
#include "support/ranks.hpp"
#include "transport/mpi/mpi_transport.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace {

/// The longest message that was passed to MPI since this was set to 0.
std::atomic<std::int64_t> longest_bytes{0};
/// Before this rank sends the next large message, it waits for all ranks, once.
std::atomic<bool> holds_a_large_send{false};

/// Returns when all ranks have called this function.
void wait_for_all_ranks() {
  MPI_Request all_here = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &all_here);
  for (int is_over = 0; is_over == 0; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    MPI_Test(&all_here, &is_over, MPI_STATUS_IGNORE);
}

void note(int count, MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  std::int64_t seen = longest_bytes;
  while (seen < std::int64_t{count} * bytes &&
         !longest_bytes.compare_exchange_weak(seen, std::int64_t{count} * bytes)) {}
}

}  // namespace

// MPI's profiling interface: these are called instead of the library's.
extern "C" {
int MPI_Isend(const void* data, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
              MPI_Request* request) {
  note(count, type);
  if (count > 10'000 && holds_a_large_send.exchange(false)) wait_for_all_ranks();
  return PMPI_Isend(data, count, type, target, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  if (source != MPI_ANY_SOURCE) note(count, type);  // a small message of any length may come from any source
  return PMPI_Irecv(data, count, type, source, tag, comm, request);
}
int MPI_Iallreduce(const void* input, void* output, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  note(count, type);
  return PMPI_Iallreduce(input, output, count, type, op, comm, request);
}
}

namespace lockstep::test {
namespace {

TEST(MpiCommunicator, gets_the_right_bits_from_every_collective_at_several_layouts) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  check_every_collective(world);
  for (const int modulus : {2, 3}) {
    CommunicatorOptions options;
    options.local_replicas = 1 + world.rank() % modulus;
    Communicator uneven = world.duplicate(options);
    check_every_collective(uneven);
  }
}

TEST(MpiCommunicator, hands_any_order_to_mpi) {
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  std::vector<float> values(10'000, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(std::span(values), ReduceOp::mean, {.order = Order::any, .name = {}});
  EXPECT_EQ(values, std::vector<float>(10'000, static_cast<float>(comm.size() + 1) / 2));
  std::vector<int> largest{comm.rank()};
  comm.all_reduce(std::span(largest), ReduceOp::max, {.order = Order::any, .name = {}});
  EXPECT_EQ(largest[0], comm.size() - 1);
  check_all_reduce(comm, ReduceOp::min, {.order = Order::canonical, .name = {}});
}

TEST(MpiCommunicator, moves_what_does_not_fit_into_one_message) {
  constexpr std::int64_t piece_bytes = 2000;  // the library's own small messages are shorter
  Communicator comm = CommunicatorAccess::make(detail::make_mpi_transport(MPI_COMM_WORLD, false, piece_bytes), {});
  check_every_collective(comm);
  for (const Order order : {Order::canonical, Order::any}) {
    longest_bytes = 0;
    std::vector<double> values(10'001, 1.0);
    comm.all_reduce(std::span(values), ReduceOp::sum, {.order = order, .name = {}});
    EXPECT_EQ(values, std::vector<double>(10'001, comm.size()));
    EXPECT_LE(longest_bytes, piece_bytes);
    if (comm.size() > 1) {
      EXPECT_EQ(longest_bytes, piece_bytes);
    }
  }
}

TEST(MpiCommunicator, finds_mismatches_absences_and_failures_and_goes_on) {
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  if (comm.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  Communicator calm = communicator_from(MPI_COMM_WORLD);
  const bool is_last = comm.rank() == comm.size() - 1;
  for (int round = 0; round < 3; ++round) {
    std::vector<float> values(static_cast<std::size_t>(3 + comm.rank() % 2), 1.0f);
    EXPECT_EQ(code_of([&] { comm.all_reduce(std::span(values), ReduceOp::sum); }), Code::mismatch);
    // the last rank comes after the others have timed out
    if (is_last) calm.barrier();
    EXPECT_EQ(code_of([&] { comm.barrier(one_second); }), Code::deadline_exceeded);
    if (!is_last) calm.barrier();
    if (comm.rank() == 0) {
      comm.abort("left");
    } else {
      EXPECT_EQ(code_of([&] { comm.barrier(); }), Code::unavailable);
    }
    comm.barrier();
    check_all_reduce(comm, ReduceOp::sum);
  }
}

TEST(MpiCommunicator, finds_that_senders_and_receivers_of_rows_differ_and_goes_on) {
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  if (comm.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto ranks = static_cast<std::size_t>(comm.size());
  const bool is_last = comm.rank() == comm.size() - 1;
  for (int round = 0; round < 3; ++round) {
    // the last rank sends rank 0 a row more than rank 0 expects
    std::vector<std::int64_t> send_rows(ranks, 1);
    const std::vector<std::int64_t> receive_rows(ranks, 1);
    if (is_last) send_rows[0] = 2;
    std::vector<float> sent(ranks + (is_last ? 1 : 0));
    std::vector<float> received(ranks);
    const ConstTensorView input = view_of(std::span<const float>(sent));
    const TensorView output = view_of(std::span(received));
    const Item item{std::span(&input, 1), std::span(&output, 1)};
    const std::string error = error_of([&] { comm.all_to_all_v(std::span(&item, 1), send_rows, receive_rows); });
    const std::string last = std::to_string(comm.size() - 1);
    expect_all(error, {"mismatch:", "replica " + last + " (rank " + last + ") sends 2 rows to replica 0 (rank 0)",
                       "of that replica has 1"});
    check_every_part_collective(comm);
  }
}

TEST(MpiCommunicator, works_after_transfers_that_failed_half_way) {
  Communicator comm = CommunicatorAccess::make(detail::make_mpi_transport(MPI_COMM_WORLD, false), {});
  if (comm.size() == 1) GTEST_SKIP() << "one rank sends nothing";
  Communicator calm = communicator_from(MPI_COMM_WORLD);
  std::vector<std::int64_t> values(1'000'000);
  for (int round = 0; round < 3; ++round) {
    const bool is_last = comm.rank() == comm.size() - 1;
    holds_a_large_send = is_last;  // until the others have failed
    EXPECT_NE(error_of([&] { comm.all_reduce(std::span(values), ReduceOp::sum, one_second); }), "none");
    if (!is_last || holds_a_large_send.exchange(false)) wait_for_all_ranks();
    calm.barrier();
    static_cast<void>(comm.recover());
    values.assign(values.size(), comm.rank() + round);
    comm.all_reduce(std::span(values), ReduceOp::sum);
    const std::int64_t ranks = comm.size();
    EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), ranks * (ranks - 1) / 2 + ranks * round));
    check_all_reduce(comm, ReduceOp::max, {.order = Order::any});
  }
  check_every_collective(comm);
}

TEST(MpiCommunicator, sends_and_receives) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  check_every_message(world);
  Communicator in_pieces = CommunicatorAccess::make(detail::make_mpi_transport(MPI_COMM_WORLD, true, 1000), {});
  check_every_message(in_pieces);
}

TEST(MpiCommunicator, finds_messages_that_do_not_fit_or_are_late_and_goes_on) {
  Communicator comm = communicator_from(MPI_COMM_WORLD, short_deadline(5000));  // send and recv have none of their own
  if (comm.size() == 1) GTEST_SKIP() << "there is no other rank";
  Communicator calm = communicator_from(MPI_COMM_WORLD);
  std::vector<float> values(3);
  const auto send = [&] {
    const ConstTensorView view = view_of(std::span<const float>(values));
    comm.send(std::span(&view, 1), 1);
  };
  const auto recv = [&](std::size_t count) {
    const TensorView view = view_of(std::span(values).first(count));
    comm.recv(std::span(&view, 1), 0);
  };
  for (int round = 0; round < 2; ++round) {
    if (comm.rank() == 0) {
      expect_all(error_of(send), {"mismatch:", "rank 0 calls send of f32 [3]", "rank 1 calls recv of f32 [2]"});
      expect_all(error_of(send), {"deadline_exceeded:", "timed out after 5 s waiting for rank 1 to call recv"});
    } else if (comm.rank() == 1) {
      expect_all(error_of([&] { recv(2); }), {"mismatch:", "rank 0 calls send of f32 [3]"});
    }
    calm.barrier();
    if (comm.rank() == 1)
      expect_all(error_of([&] { recv(3); }),
                 {"deadline_exceeded:", "timed out after 5 s waiting for rank 1 to call recv"});
    calm.barrier();
    check_every_message(comm);
    check_all_reduce(comm, ReduceOp::sum, long_deadline());
  }
}

TEST(MpiCommunicator, can_be_split) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  CommunicatorOptions options;
  options.local_replicas = 1 + world.rank() % 2;
  auto reversed = world.split(0, -world.rank(), options);
  ASSERT_TRUE(reversed);
  EXPECT_EQ(reversed->rank(), world.size() - 1 - world.rank());
  EXPECT_EQ(reversed->layout().count(reversed->rank()), options.local_replicas);
  check_every_collective(*reversed);
  auto part = reversed->split(world.rank() % 3 == 2 ? -1 : world.rank() % 2, 0, {});
  EXPECT_EQ(part.has_value(), world.rank() % 3 != 2);
  if (part) check_every_collective(*part);
  EXPECT_FALSE(world.split(-1, 0, {}));
  check_all_reduce(world, ReduceOp::sum);
}

TEST(MpiCommunicator, works_beside_others_from_several_threads) {
  Communicator world = communicator_from(MPI_COMM_WORLD);
  Communicator copy = world.duplicate({});
  auto reversed = world.split(0, -world.rank(), {});
  ASSERT_TRUE(reversed);
  std::jthread second([&] { check_every_part_collective(copy); });
  std::jthread third([&] { check_every_part_collective(*reversed); });
  check_every_part_collective(world);
}

TEST(MpiCommunicator, names_both_operations_when_ranks_use_two_in_opposite_order) {
  Communicator first = communicator_from(MPI_COMM_WORLD);
  if (first.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  CommunicatorOptions options;
  options.name = "second";
  Communicator second = first.duplicate(options);
  Communicator calm = communicator_from(MPI_COMM_WORLD);
  std::vector<float> values(3);
  constexpr std::chrono::seconds deadline(3);
  const auto use_first = [&] { return error_of([&] { first.barrier({.fail_after = deadline}); }); };
  const auto use_second = [&] {
    return error_of([&] { second.all_reduce(std::span(values), ReduceOp::sum, {.fail_after = deadline}); });
  };
  const bool is_first = first.rank() == 0;
  const std::string error = is_first ? use_first() : use_second();
  calm.barrier();  // all ranks are late before any continues
  expect_all(error, {"deadline_exceeded:",
                     is_first ? "barrier at mpi/communicator_test.cpp:" : "of second, all_reduce sum of f32 [3]",
                     is_first ? ": timed out after 3 s" : "timed out after 3 s",
                     is_first ? "waiting for rank" : "waiting for rank 0",
                     is_first ? " in operation #0 of second, all_reduce sum of f32 [3]"
                              : "rank 0 waits in operation #3 of communicator, barrier"});
  static_cast<void>(is_first ? use_second() : use_first());
  check_all_reduce(first, ReduceOp::sum, long_deadline());
  check_all_reduce(second, ReduceOp::sum, long_deadline());
}

}  // namespace
}  // namespace lockstep::test
