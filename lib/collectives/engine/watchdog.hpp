// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The time limits of the operation at the head of the queue: heartbeats, one warning, and the deadline.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/driving_clock.hpp"
#include "collectives/engine/operation_queue.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

struct WatchdogOptions {
  std::chrono::milliseconds warn_after;        ///< time without progress until the missing ranks are logged, once
  std::chrono::milliseconds fail_after;        ///< time without progress until failure; an operation may have its own
  std::chrono::milliseconds fail_after_total;  ///< time until failure even with progress; zero: unlimited
};

/// Not thread-safe: the engine calls under its lock.
class Watchdog {
 public:
  using Clock = DrivingClock::Clock;

  /// All but `options` must outlive it.
  Watchdog(Transport& transport, ControlChannel& control, const Agreement& agreement, const OperationQueue& queue,
           const WatchdogOptions& options)
      : transport_(transport), control_(control), agreement_(agreement), queue_(queue), options_(options) {}

  /// Called whenever a thread drives the head, that is, tries to make progress on it: counts the time since the last
  /// call, as DrivingClock describes.
  void count_time();
  /// All ranks have arrived at the head; the deadline of its data transfer starts now.
  void restart() noexcept;
  /// When the head was driven last.
  [[nodiscard]] Clock::time_point last_driven() const noexcept { return clock_.now(); }
  /// Whether the head has waited for so long that this rank sends a heartbeat.
  [[nodiscard]] bool has_waited_long() const noexcept;
  /// Whether the head has waited for longer than `time`.
  [[nodiscard]] bool has_waited(Clock::duration time) const noexcept { return clock_.now() - *head_since_ > time; }
  /// The head is done.
  void reset() noexcept;
  /// After count_time, if the head is not done: sends a heartbeat and logs a warning when it is time for them. Returns
  /// the failure of the head if its deadline has passed. The deadline is restarted by data that moves on this rank, or
  /// on a rank whose heartbeats report it.
  [[nodiscard]] std::optional<Failure> check(std::uint64_t epoch);

 private:
  [[nodiscard]] std::chrono::milliseconds fail_after() const noexcept;
  [[nodiscard]] std::chrono::milliseconds warn_after() const noexcept;
  [[nodiscard]] Clock::duration heartbeat_interval() const noexcept;
  void note_progress();
  void restart_clock() noexcept;
  void send_heartbeat(std::uint64_t epoch, Clock::duration waited);
  /// A rank of this node to which a debugger is attached, this one included; -1 if there is none.
  [[nodiscard]] int find_traced_rank();
  /// While a debugger is attached to a rank of this node, the deadline is suspended.
  void suspend_for_debugger();
  void warn(std::uint64_t epoch, Clock::duration waited);
  [[nodiscard]] std::vector<int> missing_ranks(std::uint64_t epoch) const;
  /// The other ranks whose data the head awaits.
  [[nodiscard]] std::vector<int> awaited_ranks() const;
  /// One of awaited_ranks(), if possible one without a heartbeat; -1 if there is none.
  [[nodiscard]] int first_awaited_rank(std::uint64_t epoch) const;
  /// Those of `ranks` from which no heartbeat has arrived in this wait.
  [[nodiscard]] std::vector<int> silent_ranks(std::vector<int> ranks, std::uint64_t epoch) const;
  /// Takes `ranks` and the ranks for which these wait, directly or through others. Returns those from which no
  /// heartbeat has arrived in this wait.
  [[nodiscard]] std::vector<int> silent_ranks_behind(std::vector<int> ranks, std::uint64_t epoch) const;
  [[nodiscard]] std::string cause_of_wait(const std::vector<int>& missing, std::uint64_t epoch) const;
  [[nodiscard]] Failure timeout(std::uint64_t epoch) const;
  [[nodiscard]] Failure total_timeout() const;

  Transport& transport_;
  ControlChannel& control_;
  const Agreement& agreement_;
  const OperationQueue& queue_;
  WatchdogOptions options_;
  DrivingClock clock_;
  std::optional<Clock::time_point> head_since_;  // when the head was first driven; none before
  // the members below describe the wait of the head; valid if head_since_ is set
  Clock::time_point waits_since_;                // the last progress
  std::optional<Clock::time_point> late_since_;  // when the deadline was first seen to have passed
  std::optional<Clock::time_point> last_heartbeat_;
  std::uint64_t progress_ = 0;        // DataProgress::count
  std::uint64_t sent_progress_ = 0;   // the same in the last heartbeat
  std::uint64_t sent_in_ = 0;         // ControlChannel::wait of the last heartbeat
  std::uint64_t heard_progress_ = 0;  // ControlChannel::progress_heard
  Clock::time_point last_look_;       // time of the last call of find_traced_rank
  int traced_ = -1;                   // result of that call; -1 again after reset()
  bool has_warned_ = false;
  bool has_named_debugger_ = false;
};

}  // namespace lockstep::detail
