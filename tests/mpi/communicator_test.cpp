// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/interop/mpi.hpp>

#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/ranks.hpp"
#include "transport/mpi/mpi_transport.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>

namespace {

/// Of what was handed to MPI since somebody set it to 0.
std::atomic<std::int64_t> longest_bytes{0};

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
  return PMPI_Isend(data, count, type, target, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  note(count, type);
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
  Communicator comm = communicator_from(MPI_COMM_WORLD, impatient(1000));
  if (comm.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto code_of = [&](const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.code();
    }
    return Code::internal;
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<float> values(static_cast<std::size_t>(3 + comm.rank() % 2), 1.0f);
    EXPECT_EQ(code_of([&] { comm.all_reduce(std::span(values), ReduceOp::sum); }), Code::mismatch);
    EXPECT_EQ(code_of([&] {
                if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1600));
                comm.barrier();
              }),
              Code::deadline_exceeded);
    if (comm.rank() == 0) {
      comm.announce_failure("left");
    } else {
      EXPECT_EQ(code_of([&] { comm.barrier(); }), Code::unavailable);
    }
    comm.barrier();
    check_all_reduce(comm, ReduceOp::sum);
  }
}

}  // namespace
}  // namespace lockstep::test
