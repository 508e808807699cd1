// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous calls.

#pragma once

#include "bench/perf/implementation.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace perf {

/// Posts calls, and then waits for all of them. A call of several steps, such as a message there and one back, is
/// posted and waited for step by step.
///
/// `One` is OurCall, MpiCall, OurMessage or MpiMessage. Each call has buffers and values of its own.
template <class One>
class InFlight final : public Implementation {
 public:
  /// Local. There is at least one call; all are of the same case.
  explicit InFlight(std::vector<std::unique_ptr<One>> calls) : calls_(std::move(calls)) {
    requests_.reserve(calls_.size());
  }

  void write(std::int64_t call) override {
    for (std::size_t i = 0; i < calls_.size(); ++i) calls_[i]->write(number(call, i));
  }
  void run() override {
    Clock::duration posting{};
    for (int step = 0; step < calls_.front()->steps(); ++step) {
      const Clock::time_point start = Clock::now();
      for (const auto& call : calls_) call->post(step, requests_);
      posting += Clock::now() - start;
      One::wait_all(requests_);
      requests_.clear();
    }
    for (const auto& call : calls_) call->finish();
    posted_seconds_ = std::chrono::duration<double>(posting).count();
  }
  [[nodiscard]] std::int64_t count_wrong(std::int64_t call) const override {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i) wrong += calls_[i]->count_wrong(number(call, i));
    return wrong;
  }
  void touch_outputs() const override {
    for (const auto& call : calls_) call->touch_outputs();
  }
  [[nodiscard]] std::optional<double> posted_seconds() const override { return posted_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// The number that selects the values of one of the calls.
  [[nodiscard]] std::int64_t number(std::int64_t call, std::size_t index) const {
    const auto calls = static_cast<std::int64_t>(calls_.size());
    return call * calls + static_cast<std::int64_t>(index);
  }

  std::vector<std::unique_ptr<One>> calls_;
  std::vector<typename One::Request> requests_;  // of one step
  std::optional<double> posted_seconds_;
};

}  // namespace perf
