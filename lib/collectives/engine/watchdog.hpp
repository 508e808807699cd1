// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The time limits of the operation at the head of the queue: heartbeats, one warning, and the deadline.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/operation_queue.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

struct WatchdogOptions {
  std::chrono::milliseconds warn_after;                  ///< without progress; then the missing ranks are logged, once
  std::chrono::milliseconds fail_after;                  ///< without progress; an operation may have another
  std::function<void(const std::string&)> on_heartbeat;  ///< gets the operation in which this rank waits
};

/// Not thread-safe: the engine calls under its lock.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  /// All but `options` must outlive it.
  Watchdog(const Transport& transport, ControlChannel& control, const Agreement& agreement, const OperationQueue& queue,
           WatchdogOptions options)
      : transport_(transport), control_(control), agreement_(agreement), queue_(queue), options_(std::move(options)) {}

  /// The head is driven now. Time in which no thread drove it does not count: the other ranks may be here and wait.
  void count_time();
  /// All ranks have arrived at the head; the deadline of its data transfer starts now.
  void restart() noexcept { head_since_ = last_driven_; }
  /// The head is done.
  void reset() noexcept;
  /// After count_time, if the head is not done: sends a heartbeat and logs a warning when it is time for them. Returns
  /// the failure of the head if its deadline has passed.
  [[nodiscard]] std::optional<Failure> check(std::uint64_t epoch);

 private:
  [[nodiscard]] std::chrono::milliseconds fail_after() const noexcept;
  void warn(std::uint64_t epoch, Clock::duration waited);
  [[nodiscard]] std::vector<int> missing_ranks(std::uint64_t epoch) const;
  /// Ranks that have agreed to the head, but of which no heartbeat has come.
  [[nodiscard]] std::vector<int> silent_ranks(std::uint64_t epoch) const;
  [[nodiscard]] Failure timeout(std::uint64_t epoch) const;

  const Transport& transport_;
  ControlChannel& control_;
  const Agreement& agreement_;
  const OperationQueue& queue_;
  WatchdogOptions options_;
  std::optional<Clock::time_point> head_since_;  // when the head was first driven; none before
  Clock::time_point last_driven_;
  bool has_sent_heartbeat_ = false;
  bool has_warned_ = false;
};

}  // namespace lockstep::detail
