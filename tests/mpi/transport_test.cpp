// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages that are in flight when a transport is destroyed, and the transports created after it; many transfers that
// are tested at once; the ranks that share processors.

#include "bindings/mpi/mpi.hpp"
#include "support/binding.hpp"
#include "transport/mpi/context.hpp"
#include "transport/mpi/inbox.hpp"
#include "transport/mpi/mpi_transport.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace {

int test_calls = 0;  // of MPI

}  // namespace

extern "C" int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  ++test_calls;
  return PMPI_Test(request, flag, status);
}

namespace lockstep::detail {
namespace {

constexpr auto timeout = std::chrono::minutes(2);

using Message = std::array<std::byte, 8>;

Message message_of(int number) { return {static_cast<std::byte>(number)}; }

/// The first message that arrives.
std::optional<int> next_message(Transport& transport) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < end) {
    if (const auto received = transport.poll()) return static_cast<int>(received->bytes.front());
  }
  return std::nullopt;
}

bool completes(Transport& transport, Transfer transfer) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < end) {
    if (transport.test(transfer)) return true;
  }
  return false;
}

/// Creates a transport, destroys it on rank 1, calls `late` on rank 0, and destroys it there, too.
template <class Late>
void end_transport(const Late& late) {
  auto transport = make_mpi_transport(MPI_COMM_WORLD, false);
  const bool is_late = transport->rank() == 0;
  if (!is_late) transport.reset();
  MPI_Barrier(MPI_COMM_WORLD);
  if (is_late) late(*transport);
  transport.reset();
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Whether the first message that rank 1 receives on a new transport is the one that rank 0 sends there.
void expect_a_new_start(int round) {
  const auto next = make_mpi_transport(MPI_COMM_WORLD, false);
  if (next->rank() == 0) next->post(1, message_of(2));
  if (next->rank() == 1) {
    EXPECT_EQ(next_message(*next), 2) << "round " << round;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Open MPI counts a message that arrives after its communicator was freed as one of the next communicator with the
/// same context id, and then loses a message of that one.
bool loses_messages() { return mpi::library_version().find("Open MPI") != std::string::npos; }

TEST(MpiTransport, hears_nothing_of_the_failure_of_one_that_has_ended) {
  for (int round = 0; round < 5; ++round) {
    end_transport([](Transport& old) {
      old.post(1, message_of(1));
      old.enter_epoch(1, true);
    });
    expect_a_new_start(round);
  }
}

TEST(MpiTransport, does_not_receive_the_pending_messages_of_a_transport_that_has_ended) {
  if (loses_messages()) GTEST_SKIP() << "with this MPI library no transport can";
  for (int round = 0; round < 5; ++round) {
    end_transport([](Transport& old) { old.post(1, message_of(1)); });
    expect_a_new_start(round);
  }
}

TEST(MpiTransport, takes_no_transfers_of_one_that_has_ended) {
  if (loses_messages()) GTEST_SKIP() << "with this MPI library no transport can";
  using Bytes = std::array<std::byte, 64>;
  for (int round = 0; round < 5; ++round) {
    end_transport([](Transport& old) {
      const Bytes stale{std::byte{1}};
      ASSERT_TRUE(completes(old, old.send(1, stale)));
      ASSERT_TRUE(completes(old, old.send_aside(1, stale)));
    });
    const auto next = make_mpi_transport(MPI_COMM_WORLD, false);
    if (next->rank() == 0) {
      const Bytes fresh{std::byte{2}};
      EXPECT_TRUE(completes(*next, next->send(1, fresh)));
      EXPECT_TRUE(completes(*next, next->send_aside(1, fresh)));
    } else if (next->rank() == 1) {
      Bytes data{};
      Bytes aside{};
      EXPECT_TRUE(completes(*next, next->receive(0, data)));
      EXPECT_TRUE(completes(*next, next->receive_aside(0, aside)));
      EXPECT_EQ(data.front(), std::byte{2}) << "round " << round;
      EXPECT_EQ(aside.front(), std::byte{2}) << "round " << round;
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST(MpiTransport, takes_no_transfer_of_an_earlier_epoch_with_the_same_tag) {
  const auto transport = make_mpi_transport(MPI_COMM_WORLD, false);
  std::array<std::byte, 64> data{};
  if (transport->rank() == 0) {
    data.fill(std::byte{1});
    EXPECT_TRUE(completes(*transport, transport->send(1, data)));  // never received
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // the tags of the slot 0, and one epoch in which the tag of epoch 0 is used again
  for (std::uint64_t epoch = 1; epoch <= Tags(0, 0).epochs(); ++epoch) transport->enter_epoch(epoch, true);
  MPI_Barrier(MPI_COMM_WORLD);
  if (transport->rank() == 0) {
    data.fill(std::byte{2});
    EXPECT_TRUE(completes(*transport, transport->send(1, data)));
  } else if (transport->rank() == 1) {
    EXPECT_TRUE(completes(*transport, transport->receive(0, data)));
    EXPECT_EQ(data.front(), std::byte{2});
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The memory into which the next message is received still has the head of an earlier one.
TEST(Inbox, ignores_messages_that_are_too_short) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  constexpr int tag = 7;
  constexpr std::uint64_t number = 5;
  mpi::Comm comm = mpi::Comm::adopt([] {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    return made;
  }());
  if (rank == 0) {
    const std::array<WireHead, 3> heads{{{number, 0}, {number, 0}, {number, 1}}};
    MPI_Send(heads.data(), sizeof(WireHead), MPI_BYTE, 1, tag, comm.get());
    MPI_Send(&heads[1], sizeof(WireHead), MPI_BYTE, 1, tag, comm.get());
    MPI_Send(nullptr, 0, MPI_BYTE, 1, tag, comm.get());
    MPI_Send(&heads[1], sizeof(WireHead) - 1, MPI_BYTE, 1, tag, comm.get());
    MPI_Send(&heads[2], sizeof(WireHead), MPI_BYTE, 1, tag, comm.get());
  } else if (rank == 1) {
    Inbox inbox(comm.get(), tag, number);
    std::vector<std::size_t> sizes;
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (inbox.last_messages() == 0 && std::chrono::steady_clock::now() < end) {
      if (const auto received = inbox.poll()) sizes.push_back(received->bytes.size());
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{0, 0, 0}));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// What rank 0 sends in transfer `index`: nothing, some bytes, or several pieces.
std::vector<std::byte> data_of(std::size_t index) {
  const std::size_t bytes = index % 10 == 3 ? 0 : index % 50 == 7 ? (std::size_t{1300} << 10) + index : 8 * index + 8;
  return std::vector<std::byte>(bytes, static_cast<std::byte>(index));
}

/// Tests the transfers once, and removes those that are complete.
void test_once(Transport& transport, std::vector<Transfer>& open) {
  std::vector<std::size_t> complete;
  transport.test_some(open, complete);
  for (auto index = complete.rbegin(); index != complete.rend(); ++index)
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(*index));
}

TEST(MpiTransport, tests_many_transfers_in_few_calls) {
  constexpr std::size_t count = 300;
  constexpr std::size_t empty = count / 10;
  const auto transport = make_mpi_transport(MPI_COMM_WORLD, false);
  std::vector<std::vector<std::byte>> data;
  for (std::size_t i = 0; i < count; ++i) data.push_back(data_of(i));
  std::vector<Transfer> open;
  if (transport->rank() == 1) {
    for (auto& each : data) {
      each.assign(each.size(), std::byte{255});
      open.push_back(transport->receive(0, each));
    }
    test_once(*transport, open);
    EXPECT_EQ(open.size(), count - empty);
    test_calls = 0;
    for (int poll = 0; poll < 100; ++poll) test_once(*transport, open);
    EXPECT_EQ(test_calls, 0);
    EXPECT_EQ(open.size(), count - empty);
  }
  MPI_Barrier(MPI_COMM_WORLD);  // rank 0 sends only now
  if (transport->rank() == 0) {
    for (const auto& each : data) open.push_back(transport->send(1, each));
  }
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!open.empty() && std::chrono::steady_clock::now() < end) test_once(*transport, open);
  EXPECT_TRUE(open.empty());
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(data[i], data_of(i)) << "transfer " << i;
  EXPECT_EQ(transport->count().moved_bytes, transport->count().started_bytes);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MpiTransport, knows_the_ranks_on_the_same_processors) {
  struct Case {
    std::array<int, 2> skipped;  // processors, by rank
    std::array<int, 2> count;
    int expected;
  };
  // bound to processors of their own; all on both; all on one; only one rank is bound
  constexpr std::array<Case, 4> cases{
      {{{0, 1}, {1, 1}, 1}, {{0, 0}, {2, 2}, 2}, {{0, 0}, {1, 1}, 2}, {{0, 1}, {2, 1}, 1}}};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto own = static_cast<std::size_t>(rank);
  for (const Case& each : cases) {
    const test::Binding binding;
    int is_bound = binding.bind(each.skipped[own], each.count[own]) ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &is_bound, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (is_bound == 0) GTEST_SKIP() << "the ranks cannot use the same two processors";
    const std::vector<int> expected = each.expected == 1 ? std::vector<int>{rank} : std::vector<int>{0, 1};
    EXPECT_EQ(make_mpi_transport(MPI_COMM_WORLD, true)->ranks_on_same_processors(), expected);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

}  // namespace
}  // namespace lockstep::detail
