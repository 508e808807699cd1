// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/open_transfers.hpp"

#include "collectives/engine/transfers.hpp"
#include "support/silent_transport.hpp"
#include "transport/loopback/loopback_transport.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;

std::vector<int> list(std::span<const int> numbers) { return {numbers.begin(), numbers.end()}; }

/// Transfers complete when the test says so. Counts the calls.
class ScriptedTransport final : public SilentTransport {
 public:
  ScriptedTransport() : SilentTransport({0, 0}) {}
  bool test(Transfer transfer) override {
    ++calls;
    if (transfer == fault) throw std::runtime_error("a fault");
    if (complete.count(transfer) == 0) return false;
    EXPECT_TRUE(freed.insert(transfer).second) << "tested after it was complete";
    return true;
  }
  Transfer receive(int source, std::span<std::byte>) override { return Transfer{source}; }
  Transfer send(int target, std::span<const std::byte>) override { return Transfer{1000 + target}; }
  void abandon(std::span<const Transfer> transfers, std::vector<Buffer>&& memory) noexcept override {
    for (const Transfer transfer : transfers) EXPECT_EQ(freed.count(transfer), 0U);
    SilentTransport::abandon(transfers, std::move(memory));
  }

  std::set<Transfer> complete;
  std::set<Transfer> freed;
  Transfer fault{-1};
  int calls = 0;
};

TEST(OpenTransfers, forgets_those_that_are_complete_and_keeps_the_order_of_the_others) {
  ScriptedTransport transport;
  OpenTransfers open;
  for (int i = 0; i < 8; ++i) open.add(10 * i, [i] { return Transfer{i}; });
  EXPECT_TRUE(open.test(transport).empty());
  transport.complete = {Transfer{1}, Transfer{2}, Transfer{6}};
  EXPECT_EQ(list(open.test(transport)), (std::vector{10, 20, 60}));
  EXPECT_EQ(list(open.numbers()), (std::vector{0, 30, 40, 50, 70}));
  EXPECT_TRUE(open.test(transport).empty());
  for (int i = 0; i < 8; ++i) transport.complete.insert(Transfer{i});
  EXPECT_EQ(list(open.test(transport)), (std::vector{0, 30, 40, 50, 70}));
  EXPECT_TRUE(open.is_empty());
  transport.calls = 0;
  EXPECT_TRUE(open.test(transport).empty());
  EXPECT_EQ(transport.calls, 0);
}

TEST(OpenTransfers, leaves_only_open_transfers_to_be_abandoned_after_a_fault) {
  ScriptedTransport transport;
  Workspace workspace;
  Transfers transfers;
  for (int source = 0; source < 4; ++source) transfers.receive(transport, workspace, source, 8);
  transport.complete = {Transfer{0}, Transfer{1}, Transfer{3}};
  transport.fault = Transfer{2};
  EXPECT_THROW(static_cast<void>(transfers.all_received(transport)), std::runtime_error);
  EXPECT_EQ(transfers.awaited_ranks(), (std::vector{2, 3}));
  transfers.abandon(transport);
  EXPECT_EQ(transport.abandoned, 2U);
}

TEST(OpenTransfers, complete_in_any_order_between_threads) {
  constexpr int ranks = 40;
  const auto ends = make_loopback_transports(ranks, false);
  std::vector<int> values(ranks, 0);
  OpenTransfers open;
  for (int source = 1; source < ranks; ++source)
    open.add(source, [&] {
      return ends[0]->receive(source, std::as_writable_bytes(std::span(&values[static_cast<std::size_t>(source)], 1)));
    });
  for (int source = ranks - 1; source > 0; --source) {
    EXPECT_TRUE(open.test(*ends[0]).empty());
    OpenTransfers sends;
    sends.add(0, [&] { return ends[static_cast<std::size_t>(source)]->send(0, std::as_bytes(std::span(&source, 1))); });
    EXPECT_EQ(sends.test(*ends[static_cast<std::size_t>(source)]).size(), 1U);
    EXPECT_EQ(list(open.test(*ends[0])), std::vector{source});
    EXPECT_EQ(values[static_cast<std::size_t>(source)], source);
  }
  EXPECT_TRUE(open.is_empty());
}

}  // namespace
}  // namespace lockstep::test
