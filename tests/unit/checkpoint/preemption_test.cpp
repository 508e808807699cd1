// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/preemption_guard.hpp>

#include "unit/strategy/strategies.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::test {
namespace {

/// Whether the thread `id` of this process ("self": the calling one) blocks SIGTERM, SIGUSR1 and SIGINT.
bool blocks_the_signals(const std::string& id) {
  std::ifstream status(id == "self" ? "/proc/thread-self/status" : "/proc/self/task/" + id + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigBlk:")) continue;
    const std::uint64_t mask = std::stoull(line.substr(7), nullptr, 16);
    const auto has = [mask](int signal) { return (mask >> (signal - 1) & 1) != 0; };
    return has(SIGTERM) && has(SIGUSR1) && has(SIGINT);
  }
  return true;  // the thread has ended
}

/// The threads of this process that block the signals, and those that do not.
std::pair<int, int> blocking_and_open_threads() {
  std::pair<int, int> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++(blocks_the_signals(entry.path().filename().string()) ? threads.first : threads.second);
  return threads;
}

/// Every test begins with the standard dispositions.
class PreemptionGuardTest : public testing::Test {
 protected:
  PreemptionGuardTest() {
    for (auto& [signal, former] : former_) former = std::signal(signal, SIG_DFL);
  }
  ~PreemptionGuardTest() override {
    for (const auto& [signal, former] : former_) std::signal(signal, former);
  }

 private:
  std::map<int, void (*)(int)> former_{{SIGTERM, nullptr}, {SIGUSR1, nullptr}, {SIGINT, nullptr}};
};

TEST_F(PreemptionGuardTest, stops_after_a_signal) {
  MirroredStrategy strategy = mirrored(2);
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    PreemptionGuard guard(strategy);
    EXPECT_FALSE(guard.should_stop());
    EXPECT_FALSE(guard.has_signal());
    std::raise(signal);
    EXPECT_TRUE(guard.has_signal());
    EXPECT_TRUE(guard.should_stop());
    EXPECT_TRUE(guard.should_stop());
  }
}

TEST_F(PreemptionGuardTest, asks_the_other_ranks_in_every_nth_call) {
  MirroredStrategy strategy = mirrored(1);
  PreemptionGuard guard(strategy, {.signals = {SIGUSR2}, .check_every = 3});
  EXPECT_FALSE(guard.should_stop());
  std::raise(SIGUSR2);
  EXPECT_FALSE(guard.should_stop());
  EXPECT_FALSE(guard.should_stop());
  EXPECT_TRUE(guard.should_stop());
}

TEST_F(PreemptionGuardTest, restores_the_signal_handlers) {
  static bool reached = false;
  std::signal(SIGUSR1, [](int) { reached = true; });
  MirroredStrategy strategy = mirrored(1);
  {
    const PreemptionGuard guard(strategy);
    EXPECT_TRUE(blocks_the_signals("self"));
  }
  EXPECT_FALSE(blocks_the_signals("self"));
  std::raise(SIGUSR1);
  EXPECT_TRUE(reached);
}

TEST_F(PreemptionGuardTest, finds_the_signals_blocked_on_all_threads_of_the_library) {
  MirroredStrategy strategy = mirrored(3);         // two threads of replicas
  strategy.communicator().barrier_async().wait();  // one that advances requests
  auto batches = strategy.experimental_distribute_dataset(Dataset<Tensor>::range(99).batch(3)).iterate();
  strategy.run([](const Tensor&) {}, batches.get_next());  // one that prefetches
  {
    PreemptionGuard guard(strategy);
    EXPECT_FALSE(guard.should_stop());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (blocking_and_open_threads().second == 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    // the system shows the signals that a thread waits for as not blocked
    EXPECT_EQ(blocking_and_open_threads().second, 1) << "not the guard's thread alone";
    EXPECT_GE(blocking_and_open_threads().first, 5);
  }
  EXPECT_FALSE(blocks_the_signals("self"));
}

TEST_F(PreemptionGuardTest, takes_a_signal_of_the_process) {
  MirroredStrategy strategy = mirrored(2);
  PreemptionGuard guard(strategy);
  ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!guard.has_signal() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(guard.should_stop());
}

TEST_F(PreemptionGuardTest, ignores_further_signals_of_a_job_that_stops) {
  MirroredStrategy strategy = mirrored(1);
  {
    PreemptionGuard guard(strategy);
    std::raise(SIGUSR1);
    EXPECT_TRUE(guard.should_stop());
  }
  std::raise(SIGUSR1);  // ends this program unless it is ignored
  std::raise(SIGTERM);
}

TEST_F(PreemptionGuardTest, ends_at_once_at_the_second_interrupt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto interrupt_twice = [] {
    MirroredStrategy strategy = mirrored(1);
    const PreemptionGuard guard(strategy);
    std::raise(SIGINT);
    if (!guard.has_signal()) std::_Exit(3);
    ::kill(::getpid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::minutes(2));
  };
  EXPECT_EXIT(interrupt_twice(), testing::KilledBySignal(SIGINT), "");
}

TEST_F(PreemptionGuardTest, leaves_an_ignored_interrupt_alone) {
  std::signal(SIGINT, SIG_IGN);
  MirroredStrategy strategy = mirrored(1);
  const PreemptionGuard guard(strategy);
  std::raise(SIGINT);
  EXPECT_FALSE(guard.has_signal());
}

TEST_F(PreemptionGuardTest, does_not_reach_into_a_child_process) {
  MirroredStrategy strategy = mirrored(1);
  auto guard = std::make_unique<PreemptionGuard>(strategy);
  const pid_t child = ::fork();
  if (child == 0) {
    struct sigaction now{};
    ::sigaction(SIGTERM, nullptr, &now);
    if (now.sa_handler != SIG_DFL) ::_exit(3);
    if (blocks_the_signals("self")) ::_exit(4);
    guard.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(blocks_the_signals("self"));
}

TEST_F(PreemptionGuardTest, refuses_invalid_options_and_a_second_guard) {
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
