// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The forms of a call of lockstep-perf, and the calls that have them.

#include "bench/perf/creation.hpp"
#include "bench/perf/in_flight.hpp"
#include "bench/perf/in_turn.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace perf {
namespace {

/// Writes what is done to it to a log, as "post 0.1" for step 0 of call 1.
class LoggedCall {
 public:
  using Request = int;

  LoggedCall(std::vector<std::string>& log, int number, int steps) : log_(log), number_(number), steps_(steps) {}
  void write(std::int64_t call) { values_ = call; }
  [[nodiscard]] int steps() const { return steps_; }
  void post(int step, std::vector<int>& requests) {
    log_.push_back("post " + std::to_string(step) + "." + std::to_string(number_));
    requests.push_back(number_);
    log_of_waits = &log_;
  }
  static void wait_all(std::vector<int>& requests) {
    log_of_waits->push_back("wait for " + std::to_string(requests.size()));
  }
  void finish() { log_.push_back("finish " + std::to_string(number_)); }
  [[nodiscard]] std::int64_t count_wrong(std::int64_t call) const { return call == values_ ? number_ : 100; }
  void touch_outputs() const {}

 private:
  static inline std::vector<std::string>* log_of_waits = nullptr;
  std::vector<std::string>& log_;
  int number_;
  int steps_;
  std::int64_t values_ = -1;
};

std::unique_ptr<InFlight<LoggedCall>> two_calls(std::vector<std::string>& log, int steps) {
  std::vector<std::unique_ptr<LoggedCall>> calls;
  for (const int number : {1, 2}) calls.push_back(std::make_unique<LoggedCall>(log, number, steps));
  return std::make_unique<InFlight<LoggedCall>>(std::move(calls));
}

TEST(InFlight, posts_all_calls_before_it_waits_for_them) {
  std::vector<std::string> log;
  const auto calls = two_calls(log, 1);
  EXPECT_EQ(calls->posted_seconds(), std::nullopt);
  calls->run();
  EXPECT_EQ(log, (std::vector<std::string>{"post 0.1", "post 0.2", "wait for 2", "finish 1", "finish 2"}));
  EXPECT_GE(calls->posted_seconds(), 0);
}

TEST(InFlight, waits_for_each_step_of_the_calls) {
  std::vector<std::string> log;
  two_calls(log, 2)->run();
  EXPECT_EQ(log, (std::vector<std::string>{"post 0.1", "post 0.2", "wait for 2", "post 1.1", "post 1.2", "wait for 2",
                                           "finish 1", "finish 2"}));
}

TEST(InFlight, checks_each_call_with_values_of_its_own) {
  std::vector<std::string> log;
  const auto calls = two_calls(log, 1);
  calls->write(7);
  EXPECT_EQ(calls->count_wrong(7), 1 + 2);
  EXPECT_EQ(calls->count_wrong(8), 200);
}

TEST(InTurn, ends_each_call_before_the_next_one) {
  std::vector<std::string> log;
  std::vector<std::unique_ptr<Implementation>> calls;
  for (const int steps : {1, 2}) calls.push_back(two_calls(log, steps));
  InTurn turns(std::move(calls));
  EXPECT_EQ(turns.posted_seconds(), std::nullopt);
  turns.run();
  EXPECT_EQ(log, (std::vector<std::string>{"post 0.1", "post 0.2", "wait for 2", "finish 1", "finish 2", "post 0.1",
                                           "post 0.2", "wait for 2", "post 1.1", "post 1.2", "wait for 2", "finish 1",
                                           "finish 2"}));
  EXPECT_GE(turns.posted_seconds(), 0);
}

TEST(InTurn, checks_each_call_with_values_of_its_own) {
  std::vector<std::string> log;
  std::vector<std::unique_ptr<Implementation>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(two_calls(log, 1));
  InTurn turns(std::move(calls));
  turns.write(7);
  EXPECT_EQ(turns.count_wrong(7), 3 * (1 + 2));
  EXPECT_EQ(turns.count_wrong(8), 3 * 200);
}

TEST(Forms, are_those_that_a_call_has) {
  Options options;
  EXPECT_EQ(options.forms_of(Collective::all_reduce), std::vector{Form::blocking});
  EXPECT_EQ(options.forms_of(Collective::halo), std::vector{Form::async});
  options.forms = {Form::blocking, Form::in_flight};
  EXPECT_EQ(options.forms_of(Collective::send_recv), options.forms);
  EXPECT_EQ(options.forms_of(Collective::halo), std::vector{Form::in_flight});
  EXPECT_EQ(options.forms_of(Collective::split), std::vector{Form::blocking});
  options.forms = {Form::loop, Form::async_loop};
  EXPECT_EQ(options.forms_of(Collective::barrier), options.forms);
  EXPECT_EQ(options.forms_of(Collective::halo), std::vector{Form::async_loop});
  EXPECT_TRUE(options.forms_of(Collective::duplicate).empty());
}

TEST(Cases, of_one_rank_have_no_messages) {
  Options options;
  options.collectives = {Collective::send_recv, Collective::duplicate};
  options.max_bytes = options.min_bytes;
  EXPECT_EQ(cases(options, Job{.ranks = 1}).size(), 1u);
  EXPECT_EQ(cases(options, Job{.ranks = 2}).size(), 2u);
}

/// A new communicator, as this process finds it.
class FoundCreation final : public Creation {
 public:
  FoundCreation(int rank, int size)
      : Creation({.collective = Collective::split}, {.rank = 1, .ranks = 3}), found_rank_(rank), found_size_(size) {}
  explicit FoundCreation(std::int64_t sum)
      : Creation({.collective = Collective::first_call}, {.rank = 1, .ranks = 3}), found_sum_(sum) {}
  void run() override {
    rank_ = found_rank_;
    size_ = found_size_;
    sum_ = found_sum_;
  }

 private:
  int found_rank_ = 1;
  int found_size_ = 3;
  std::int64_t found_sum_ = -1;
};

std::int64_t wrong_of(int rank, int size) {
  FoundCreation creation(rank, size);
  creation.write(0);
  creation.run();
  return creation.count_wrong(0);
}

TEST(Creation, counts_a_wrong_rank_and_a_wrong_size) {
  EXPECT_EQ(wrong_of(1, 3), 0);
  EXPECT_EQ(wrong_of(0, 3), 1);
  EXPECT_EQ(wrong_of(0, 1), 2);
  for (const std::int64_t sum : {3, 2}) {
    FoundCreation first_call(sum);
    first_call.write(0);
    first_call.run();
    EXPECT_EQ(first_call.count_wrong(0), sum == 3 ? 0 : 1);
  }
  FoundCreation not_run(1, 3);
  not_run.write(0);
  EXPECT_EQ(not_run.count_wrong(0), 2);
}

}  // namespace
}  // namespace perf
