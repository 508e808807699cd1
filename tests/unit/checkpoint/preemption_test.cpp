// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/preemption_guard.hpp>

#include "unit/strategy/strategies.hpp"

#include <csignal>

namespace lockstep::test {
namespace {

TEST(PreemptionGuard, stops_after_a_signal) {
  MirroredStrategy strategy = mirrored(2);
  for (const int signal : {SIGTERM, SIGUSR1}) {
    PreemptionGuard guard(strategy);
    EXPECT_FALSE(guard.should_stop());
    EXPECT_FALSE(guard.has_signal());
    std::raise(signal);
    EXPECT_TRUE(guard.has_signal());
    EXPECT_TRUE(guard.should_stop());
    EXPECT_TRUE(guard.should_stop());
  }
}

TEST(PreemptionGuard, asks_the_other_ranks_in_every_nth_call) {
  MirroredStrategy strategy = mirrored(1);
  PreemptionGuard guard(strategy, {.signals = {SIGUSR2}, .check_every = 3});
  EXPECT_FALSE(guard.should_stop());
  std::raise(SIGUSR2);
  EXPECT_FALSE(guard.should_stop());
  EXPECT_FALSE(guard.should_stop());
  EXPECT_TRUE(guard.should_stop());
}

TEST(PreemptionGuard, restores_the_signal_handlers) {
  static bool reached = false;
  const auto former = std::signal(SIGUSR1, [](int) { reached = true; });
  MirroredStrategy strategy = mirrored(1);
  { const PreemptionGuard guard(strategy); }
  std::raise(SIGUSR1);
  EXPECT_TRUE(reached);
  std::signal(SIGUSR1, former);
}

TEST(PreemptionGuard, refuses_invalid_options_and_a_second_guard) {
  MirroredStrategy strategy = mirrored(1);
  expect_error(Code::invalid_argument, {"check_every is 0"}, [&] { PreemptionGuard(strategy, {.check_every = 0}); });
  expect_error(Code::invalid_argument, {"signal 9 "}, [&] { PreemptionGuard(strategy, {.signals = {SIGKILL}}); });
  PreemptionGuard guard(strategy);
  expect_error(Code::failed_precondition, {"another PreemptionGuard exists"},
               [&] { PreemptionGuard second(strategy); });
  expect_error(Code::failed_precondition, {"should_stop", "replica context"},
               [&] { strategy.run([&] { static_cast<void>(guard.should_stop()); }); });
}

}  // namespace
}  // namespace lockstep::test
