// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank has no memory for a call: it throws std::bad_alloc, and the other ranks an error that names it, at once. A
// separate program, since it replaces the operators for allocation.

#include "collectives/engine/control_channel.hpp"
#include "collectives/make_communicator.hpp"
#include "support/counted_allocations.hpp"
#include "support/errors.hpp"
#include "support/expect_error.hpp"
#include "support/ranks.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/shm/node_group.hpp"
#include "virtual_time/virtual_time.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

/// Several allocations that fail.
struct Failures {
  long count = 1;
  long between = 0;  ///< allocations that succeed between two of them
};

/// Calls `call` with allocation `k` of this thread failing, and others after it according to `several`; negative: none.
/// Returns whether the call has come to it.
bool lacks_memory(long k, FunctionRef<void()> call, Failures several = {}) {
  allocations_before_failure = k;
  failures = several.count;
  allocations_between_failures = several.between;
  try {
    call();
  } catch (const std::bad_alloc&) {
  } catch (const Error& error) {
    if (k < 0) throw;
    EXPECT_EQ(error.code(), Code::unavailable) << error.what();
  }
  const bool has_failed = std::exchange(allocations_before_failure, -1) < 0 || failures < several.count;
  failures = 1;
  allocations_between_failures = 0;
  return has_failed && k >= 0;
}

/// What ranks do with their transports; `k`: the allocation that fails, of the rank that lacks memory; else negative.
/// Returns whether the rank has come to it.
using Part = FunctionRef<bool(std::unique_ptr<detail::Transport> transport, long k)>;

/// Rank 0 of `node_leaders` lacks memory for allocation 0, 1, ... of its part, until it comes to its end. The other
/// ranks get an error that names rank 0, or none.
void expect_errors_of_others(const std::vector<int>& node_leaders, Part part) {
  bool has_failed = true;
  long k = 0;
  for (; has_failed; ++k) {
    auto transports = detail::make_loopback_transports(node_leaders, true);
    std::vector<std::jthread> ranks;
    for (auto& transport : transports) {
      ranks.emplace_back([&, own = std::move(transport)]() mutable {
        if (own->rank() == 0) {
          has_failed = part(std::move(own), k);
          return;
        }
        const auto begin = std::chrono::steady_clock::now();
        try {
          part(std::move(own), -1);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::unavailable) << "allocation " << k << ": " << error.what();
          EXPECT_EQ(error.rank(), 0) << "allocation " << k << ": " << error.what();
        }
        if (virtual_time::is_active()) {
          EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s) << "allocation " << k;
        }
      });
    }
  }
  EXPECT_GT(k, 20);
}

TEST(Shortage, in_the_creation_of_a_communicator) {
  const auto create = [](std::unique_ptr<detail::Transport> transport, long k) {
    std::optional<Communicator> made;
    const auto options = minutes_to_fail();
    const bool has_failed = lacks_memory(k, [&] { made = CommunicatorAccess::make(std::move(transport), options); });
    if (made) made->barrier();
    return has_failed;
  };
  expect_errors_of_others({0, 0, 0}, create);
  expect_errors_of_others({0, 1, 1}, create);
  expect_errors_of_others({0, 0, 2}, create);
}

TEST(Shortage, in_split) {
  const auto split = [](std::unique_ptr<detail::Transport> transport, long k) {
    const int rank = transport->rank();
    const auto options = minutes_to_fail();
    const Communicator all = CommunicatorAccess::make(std::move(transport), options);
    std::optional<Communicator> part;
    const bool has_failed = lacks_memory(k, [&] { part = all.split(rank % 2, rank, options); });
    if (part) part->barrier();
    return has_failed;
  };
  expect_errors_of_others({0, 0, 0}, split);
  expect_errors_of_others({0, 1, 1}, split);
}

TEST(Shortage, in_the_wait_for_a_receiver_ends_the_send_or_lets_it_go_on) {
  bool has_failed = true;
  for (long k = 0; has_failed; ++k) {
    on_ranks(
        {1, 1},
        [&](Communicator& comm) {
          std::vector<float> values(3, comm.rank() == 0 ? 7.0F : 0.0F);
          if (comm.rank() == 0) {
            const ConstTensorView view = view_of(std::span<const float>(values));
            Request request = comm.send_async(std::span(&view, 1), 1);
            has_failed = lacks_memory(k, [&] { request.wait(); });
            values.assign(3, -1.0F);
          } else {
            std::this_thread::sleep_for(1s);  // rank 0 tells others that it waits
            const TensorView view = view_of(std::span(values));
            const std::string error = error_of([&] { comm.recv(std::span(&view, 1), 0); });
            EXPECT_TRUE(error != "none" || values == std::vector<float>(3, 7.0F)) << "allocation " << k;
          }
          comm.barrier();
        },
        short_deadline(10'000));
  }
}

TEST(Shortage, in_the_receipt_of_a_message_loses_no_message) {
  bool has_failed = true;
  for (long k = 0; has_failed; ++k) {
    const auto ends = detail::make_loopback_transports(2, false);
    detail::ControlChannel receiver(*ends[0]);
    detail::ControlChannel sender(*ends[1]);
    const detail::AgreementHeader header{.hash = 5};
    sender.send_header(0, std::as_bytes(std::span(&header, 1)));
    sender.send_heartbeat(0, 3, {.awaited = {0}});
    sender.send_abort(0, {3, {Code::unavailable, "rank 7 has died", {}, detail::Ends::communicator}});
    sender.send_leave(0, 0, {4, {Code::unavailable, "rank 1 has left", {}, detail::Ends::communicator_here}});
    has_failed = lacks_memory(k, [&] { receiver.poll(); });
    receiver.poll();
    const auto received = receiver.take_header(1, 0, 0, 0);
    ASSERT_TRUE(received) << "allocation " << k;
    EXPECT_EQ(received->header.hash, 5U);
    EXPECT_FALSE(receiver.take_header(1, 0, 0, 0));
    EXPECT_TRUE(receiver.has_heartbeat_of(1, 0, 3));
    EXPECT_EQ(receiver.awaited_by(1, 0, 3).size(), 1U);
    ASSERT_NE(receiver.abort_record(0, 3), nullptr) << "allocation " << k;
    EXPECT_EQ(receiver.abort_record(0, 3)->text, "rank 7 has died");
    ASSERT_EQ(receiver.gone_ranks().size(), 1U) << "allocation " << k;
    EXPECT_EQ(receiver.gone_ranks()[0].text, "rank 1 has left");
    EXPECT_TRUE(has_failed || k > 4) << k;
  }
}

TEST(Shortage, in_the_start_of_a_transfer_leaves_later_transfers_alone) {
  bool has_failed = true;
  for (long k = 0; has_failed; ++k) {
    const auto ends = detail::make_loopback_transports(2, false);
    std::array<std::byte, 3> data{};
    has_failed = lacks_memory(k, [&] { static_cast<void>(ends[0]->receive(1, data)); });
    if (!has_failed) break;
    const detail::Transfer transfer = ends[0]->receive(1, data);
    EXPECT_FALSE(ends[0]->test(transfer));
    static_cast<void>(ends[1]->send(0, std::array{std::byte{1}, std::byte{2}, std::byte{3}}));
    EXPECT_TRUE(ends[0]->test(transfer)) << "allocation " << k;
    EXPECT_EQ(data[2], std::byte{3});
    EXPECT_EQ(ends[0]->count().completed, 1U);
    EXPECT_EQ(ends[0]->count().moved_bytes, ends[0]->count().started_bytes);
  }
}

/// Rank 0 lacks memory for several allocations in `call`, also for what it tells the others: nothing of the
/// call is left behind, and the next ones are right.
void check_several_failures(const std::vector<int>& node_leaders,
                            FunctionRef<void(Communicator&, std::span<float>)> call) {
  for (const Failures& several :
       {Failures{2}, Failures{7}, Failures{40}, Failures{2, 1}, Failures{5, 3}, Failures{3, 12}}) {
    bool has_failed = true;
    for (long k = 0; has_failed; ++k) {
      auto transports = detail::make_loopback_transports(node_leaders, true);
      std::latch calls(static_cast<std::ptrdiff_t>(transports.size()));
      std::vector<std::jthread> ranks;
      for (auto& transport : transports) {
        ranks.emplace_back([&, own = std::move(transport)]() mutable {
          const int rank = own->rank();
          Communicator comm = CommunicatorAccess::make(std::move(own), short_deadline(10'000));
          {
            std::vector<float> values(1000, 1.0F);
            const auto make_call = [&] { call(comm, values); };
            if (rank == 0) {
              has_failed = lacks_memory(k, make_call, several);
            } else if (const auto error = thrown_by(make_call)) {
              // a rank that could not tell the others goes on without them
              EXPECT_TRUE(error->code() == Code::mismatch || error->rank() == 0) << error->what();
            }
          }
          calls.arrive_and_wait();  // a rank that could not tell the others may not wait for them in recover until then
          const auto recover = [&] { static_cast<void>(comm.recover()); };
          for (int attempt = 1; thrown_by(recover); ++attempt) {
            if (attempt == 20) FAIL() << "allocations " << k << " and later: " << thrown_by(recover)->what();
          }
          std::vector<float> values(1000, 1.0F);
          comm.all_reduce(values, ReduceOp::sum);
          EXPECT_EQ(values, std::vector<float>(1000, 3.0F)) << "allocations " << k << " and later";
        });
      }
    }
  }
}

TEST(Shortage, of_several_allocations_in_a_reduction) {
  const auto all_reduce = [](Communicator& comm, std::span<float> values) { comm.all_reduce(values, ReduceOp::sum); };
  check_several_failures({0, 0, 0}, all_reduce);
  check_several_failures({0, 1, 1}, all_reduce);
}

TEST(Shortage, of_several_allocations_in_an_asynchronous_gather) {
  check_several_failures({0, 0, 2}, [](Communicator& comm, std::span<float> values) {
    comm.all_gather_async(std::span<const float>(values.first(200)), values.last(600)).wait();
  });
}

TEST(Shortage, of_several_allocations_in_messages) {
  check_several_failures({0, 1, 1}, [](Communicator& comm, std::span<float> values) {
    if (comm.rank() == 0) {
      comm.send(std::span<const float>(values), 1);
      comm.recv(values, 2);
    } else if (comm.rank() == 1) {
      comm.recv(values, 0);
    } else {
      comm.send(std::span<const float>(values), 0);
    }
  });
}

/// Rank 0 lacks memory for allocation 0, 1, ... of its end of a message. The message fails on both ends at once, or on
/// none, and the next message arrives.
void check_messages(bool sends) {
  bool has_failed = true;
  long k = 0;
  for (; has_failed; ++k) {
    auto transports = detail::make_loopback_transports(std::vector<int>{0, 1}, true);
    std::vector<std::jthread> ranks;
    for (auto& transport : transports) {
      ranks.emplace_back([&, own = std::move(transport)]() mutable {
        const int rank = own->rank();
        const Communicator comm = CommunicatorAccess::make(std::move(own), minutes_to_fail(), ReplicaLayout({1, 1}));
        std::vector<float> values(1000, 1.0F);
        const auto transfer = [&] {
          if ((rank == 0) == sends) {
            comm.send(std::span<const float>(values), 1 - rank);
          } else {
            comm.recv(std::span(values), 1 - rank);
          }
        };
        const auto begin = std::chrono::steady_clock::now();
        if (rank == 0) {
          has_failed = lacks_memory(k, transfer);
        } else if (const auto error = thrown_by(transfer)) {
          EXPECT_EQ(error->code(), Code::unavailable) << "allocation " << k << ": " << error->what();
          EXPECT_EQ(error->rank(), 0) << "allocation " << k << ": " << error->what();
        }
        values.assign(values.size(), (rank == 0) == sends ? 2.0F : -1.0F);
        const auto error = thrown_by(transfer);
        EXPECT_FALSE(error) << "allocation " << k << ": " << error->what();
        EXPECT_EQ(values.back(), 2.0F) << "allocation " << k;
        if (virtual_time::is_active()) {
          EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s) << "allocation " << k;
        }
      });
    }
  }
  EXPECT_GT(k, 10);
}

TEST(Shortage, in_a_send_leaves_the_numbers_of_messages_in_order) { check_messages(true); }
TEST(Shortage, in_a_receive_leaves_the_numbers_of_messages_in_order) { check_messages(false); }

TEST(Shortage, in_the_end_of_a_communicator) {
  on_ranks({1, 1}, [](Communicator& comm) {
    auto part = comm.split(0, comm.rank(), minutes_to_fail());
    const std::vector<float> input(100'000, 1.0F);
    std::vector<float> output(200'000);
    part->all_gather(input, output);  // through staging memory
    lacks_memory(0, [&] { part.reset(); });
    comm.barrier();
  });
}

TEST(Shortage, in_the_end_of_a_group_of_processes) {
  detail::ProcessGroupOffer offer(true);
  const std::array<detail::NodeIntroduction, 2> members{offer.introduction(), offer.introduction()};
  if (!offer.open(0, members)) GTEST_SKIP() << offer.why_not();
  auto group = offer.take();
  group->reserve_inputs(1000);
  lacks_memory(0, [&] { group.reset(); });

  auto other = std::make_unique<detail::ProcessGroupOffer>(true);
  const std::array<detail::NodeIntroduction, 2> its_members{other->introduction(), other->introduction()};
  ASSERT_TRUE(other->open(0, its_members));
  EXPECT_TRUE(lacks_memory(0, [&] { static_cast<void>(other->take()); }));
  lacks_memory(0, [&] { other.reset(); });
}

}  // namespace
}  // namespace lockstep::test
