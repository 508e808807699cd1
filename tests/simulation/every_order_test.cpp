// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Small protocols in every order in which their threads can take turns, with a few preemptions: before each access to a
// word of the shared blocks or, where the code reports its accesses, before each access to an atomic.

#include "support/every_choice.hpp"

#include <lockstep/collectives/communicator.hpp>

#include "collectives/engine/node_failures.hpp"
#include "collectives/make_communicator.hpp"
#include "races/races.hpp"
#include "support/function_ref.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::simulation {
namespace {

using test::EveryChoice;

void preempt() { virtual_time::preempt(); }

constexpr detail::TestHooks hooks{.at_flag = preempt};

/// Runs the threads that `begin` makes in every order with at most `most` preemptions, or one where the code reports
/// its accesses. `after` is called after each run; the runs end with the first that fails. Returns the number of runs.
std::uint64_t in_every_order(int most, test::FunctionRef<std::vector<std::jthread>()> begin,
                             test::FunctionRef<void()> after) {
  EveryChoice choices(races::is_available() ? 1 : most);
  std::uint64_t runs = 0;
  do {
    virtual_time::Options options;
    // the threads are in the order in which they became ready, so that the last one is the one that ran
    options.choose = [&](std::size_t ready) { return ready - 1 - choices.below(ready); };
    virtual_time::VirtualRun run(options);
    {
      const races::Detection detection({.at_atomic = preempt});
      begin().clear();
      for (const races::Race& race : detection.races()) ADD_FAILURE() << race.text;
    }
    EXPECT_EQ(run.end(), 0);
    after();
    ++runs;
  } while (!::testing::Test::HasFailure() && choices.next());
  return runs;
}

TEST(EveryChoice, makes_each_sequence_once) {
  const auto sequences = [](int most) {
    EveryChoice choices(most);
    std::vector<std::string> all;
    do {
      std::string sequence;
      for (std::size_t count = 2; count < 4; ++count) sequence += std::to_string(choices.below(count));
      if (sequence == "12") sequence += std::to_string(choices.below(2));
      all.push_back(sequence);
    } while (choices.next());
    return all;
  };
  EXPECT_EQ(sequences(EveryChoice::any_number), (std::vector<std::string>{"00", "01", "02", "10", "11", "120", "121"}));
  EXPECT_EQ(sequences(1), (std::vector<std::string>{"00", "01", "02", "10"}));
  EXPECT_EQ(sequences(0), std::vector<std::string>{"00"});
}

TEST(EveryOrder, of_failures_at_once_gives_one_failure_to_the_ranks_of_a_node) {
  std::vector<std::unique_ptr<detail::NodeGroup>> groups;
  std::array<std::string, 3> thrown;
  std::optional<detail::Failure> found;
  const auto fail = [&](std::size_t rank) {
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      const detail::Failure own{Code::unavailable, std::to_string(rank), {}};
      thrown[rank] += detail::NodeFailures(groups[rank].get()).publish(epoch, {0, own}).failure.text;
    }
  };
  const std::uint64_t runs = in_every_order(
      3,
      [&] {
        groups = detail::make_thread_groups(3);
        for (const auto& group : groups) group->set_test_hooks(&hooks);
        thrown = {};
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < 2; ++rank) threads.emplace_back(fail, rank);
        threads.emplace_back([&] { found = detail::NodeFailures(groups[2].get()).find(0, 0); });
        return threads;
      },
      [&] {
        EXPECT_EQ(thrown[0].size(), 2U);
        EXPECT_EQ(thrown[0], thrown[1]);
        if (found) {
          EXPECT_EQ(found->text, thrown[0].substr(0, 1));
        }
      });
  EXPECT_GT(runs, 10U);
}

/// Two ranks of one node, which share memory.
struct TwoRanks {
  std::array<std::string, 2> errors;
  std::array<std::vector<float>, 2> sums;

  /// Calls `call` for both ranks in every order. A rank that throws ends with its error.
  std::uint64_t in_every_order(int most, test::FunctionRef<void(const Communicator&, std::vector<float>&)> call,
                               test::FunctionRef<void()> after) {
    return simulation::in_every_order(
        most,
        [&] {
          errors = {};
          sums = {};
          CommunicatorOptions options;
          options.fail_after = std::chrono::seconds(2);
          std::vector<std::jthread> threads;
          for (auto& transport : detail::make_loopback_transports(2, true)) {
            const auto rank = static_cast<std::size_t>(transport->rank());
            Communicator comm = CommunicatorAccess::make(std::move(transport), options, ReplicaLayout({1, 1}));
            CommunicatorAccess::set_test_hooks(comm, &hooks);
            threads.emplace_back([this, rank, &call, own = std::move(comm)] {
              try {
                call(own, sums[rank]);
              } catch (const Error& error) {
                errors[rank] = error.text();
              }
            });
          }
          return threads;
        },
        after);
  }

  /// Both ranks have these sums, and no error.
  void expect_sums(const std::vector<float>& expected) const {
    for (const std::size_t rank : {0U, 1U}) {
      EXPECT_EQ(errors[rank], "");
      EXPECT_EQ(sums[rank], expected);
    }
  }
};

float sum_of(const Communicator& comm, float value) { return comm.all_reduce(value, ReduceOp::sum); }

TEST(EveryOrder, of_small_calls_one_after_the_other_gives_their_sums) {
  TwoRanks ranks;
  const std::uint64_t runs = ranks.in_every_order(
      5,
      [](const Communicator& comm, std::vector<float>& sums) {
        for (int k = 0; k < 3; ++k) sums.push_back(sum_of(comm, static_cast<float>(k + 4 * comm.rank())));
      },
      [&] { ranks.expect_sums({4, 6, 8}); });
  EXPECT_GT(runs, 10U);
}

TEST(EveryOrder, of_calls_that_differ_is_the_same_error_on_both_ranks) {
  TwoRanks ranks;
  const std::uint64_t runs = ranks.in_every_order(
      5,
      [](const Communicator& comm, std::vector<float>& sums) {
        if (comm.rank() == 1) return comm.barrier();
        sums.push_back(sum_of(comm, 1));
      },
      [&] {
        EXPECT_NE(ranks.errors[0].find("ranks disagree on operation #0"), std::string::npos) << ranks.errors[0];
        EXPECT_EQ(ranks.errors[0], ranks.errors[1]);
      });
  EXPECT_GT(runs, 10U);
}

TEST(EveryOrder, of_an_abort_and_calls_ends_the_call_in_whose_place_it_comes) {
  TwoRanks ranks;
  const std::uint64_t runs = ranks.in_every_order(
      3,
      [](const Communicator& comm, std::vector<float>& sums) {
        sums.push_back(sum_of(comm, 1));
        if (comm.rank() == 1) {
          comm.abort("no more bread");
        } else {
          try {
            sums.push_back(sum_of(comm, 2));
          } catch (const Error& error) {
            EXPECT_NE(error.text().find("no more bread"), std::string::npos) << error.text();
          }
        }
        sums.push_back(sum_of(comm, 3));
      },
      [&] { ranks.expect_sums({2, 6}); });
  EXPECT_GT(runs, 10U);
}

}  // namespace
}  // namespace lockstep::simulation
