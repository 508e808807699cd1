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
#include <utility>
#include <vector>

namespace lockstep::detail {

struct WatchdogOptions {
  std::chrono::milliseconds warn_after;        ///< time without progress until the missing ranks are logged, once
  std::chrono::milliseconds fail_after;        ///< time without progress until failure; an operation may override it
  std::chrono::milliseconds fail_after_total;  ///< time until failure even with progress; zero: unlimited
};

/// Not thread-safe: called under the engine's lock.
class Watchdog {
 public:
  using Clock = DrivingClock::Clock;

  /// All references except `options` must outlive the watchdog.
  Watchdog(Transport& transport, ControlChannel& control, const Agreement& agreement, const OperationQueue& queue,
           const WatchdogOptions& options)
      : transport_(transport), control_(control), agreement_(agreement), queue_(queue), options_(options) {}

  /// Called whenever a thread drives the head, that is, tries to make progress on the head. Counts the time since the
  /// last call, as DrivingClock describes.
  void count_time();
  /// Called when all ranks have arrived at the head: the timeout, if it has started, starts again, for the transfer of
  /// data.
  void restart() noexcept;
  /// The time at which the head was driven last.
  [[nodiscard]] Clock::time_point last_driven() const noexcept { return clock_.now(); }
  /// The ranks that hold the head up, and that have not answered the probe or, before the probe, have been silent in
  /// this wait. Empty if all respond.
  [[nodiscard]] std::vector<int> missing_ranks(std::uint64_t epoch) const;
  /// Whether the head has waited for so long that this rank sends a heartbeat.
  [[nodiscard]] bool has_waited_long() const noexcept;
  /// Whether the head has waited for longer than `time`.
  [[nodiscard]] bool has_waited(Clock::duration time) const noexcept { return clock_.now() - *head_since_ > time; }
  /// Called when the head is done.
  void reset() noexcept;
  /// Called after count_time if the head is not done. Sends a heartbeat if one is due, and logs a warning if one is
  /// due. Returns the failure of the head if its deadline has passed. The timeout starts again whenever data moves on
  /// this rank, or a heartbeat reports that data has moved on another rank.
  [[nodiscard]] std::optional<Failure> check(std::uint64_t epoch);
  /// Called while this rank, which abandons the head, waits for `member` of its node. Receives messages. Sends a
  /// heartbeat if another rank asks whether this rank responds, and if `is_news`: the last one named another member.
  /// Returns whether it has sent one.
  bool answer_while_abandoning(std::uint64_t epoch, int member, bool is_news);

 private:
  [[nodiscard]] std::chrono::milliseconds fail_after() const noexcept;
  [[nodiscard]] std::chrono::milliseconds warn_after() const noexcept;
  /// Which heartbeats show that a rank responds.
  [[nodiscard]] ControlChannel::Since since() const noexcept {
    return probed_at_ ? ControlChannel::Since::probe : ControlChannel::Since::wait;
  }
  [[nodiscard]] Clock::duration heartbeat_interval() const noexcept;
  void note_progress();
  void restart_clock() noexcept;
  void send_heartbeat(std::uint64_t epoch, Clock::duration waited);
  /// The rank of `member` of this node.
  [[nodiscard]] int rank_of(int member) const;
  /// A rank of this node, possibly this rank itself, to which a debugger is attached; -1 if there is none.
  [[nodiscard]] int find_traced_rank();
  /// Suspends the deadline while a debugger is attached to a rank of this node.
  void suspend_for_debugger();
  void warn(std::uint64_t epoch, Clock::duration waited);
  /// The other ranks for which the head waits, as far as this rank sees it.
  [[nodiscard]] std::vector<int> awaited_ranks() const;
  /// awaited_ranks(), those first that do not respond.
  [[nodiscard]] std::vector<int> awaited_for_heartbeat(std::uint64_t epoch) const;
  /// While ranks have not agreed on the head: the ranks for which this rank or a rank that responds waits, and which do
  /// not respond themselves.
  [[nodiscard]] std::vector<int> ranks_that_hold_up(std::uint64_t epoch) const;
  /// The ranks in `ranks`, except this rank, from which no heartbeat has arrived in the current wait, or since the
  /// probe.
  [[nodiscard]] std::vector<int> silent_ranks(std::vector<int> ranks, std::uint64_t epoch) const;
  /// As silent_ranks, applied to `ranks` and to all ranks for which these ranks wait, directly or through other ranks.
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
  std::optional<Clock::time_point> head_since_;  // when the head was first driven; empty until then
  // the members below describe the wait of the head; valid if head_since_ is set
  Clock::time_point waits_since_;                // time of the last progress
  std::optional<Clock::time_point> late_since_;  // when the deadline was first seen to have passed
  std::optional<Clock::time_point> last_heartbeat_;
  std::uint64_t progress_ = 0;                              // DataProgress::count when it was last read
  std::uint64_t sent_progress_ = 0;                         // progress_ in the last heartbeat that was sent
  std::uint64_t sent_in_ = 0;                               // number of the wait in which the last heartbeat was sent
  std::vector<int> sent_awaited_;                           // the awaited ranks in that heartbeat
  Clock::time_point last_list_;                             // time of the last call of awaited_for_heartbeat
  std::pair<std::uint64_t, std::int64_t> answered_{0, -1};  // ControlChannel::latest_heartbeat at that heartbeat
  std::uint64_t heard_progress_ = 0;                        // ControlChannel::progress_heard when it was last read
  Clock::time_point last_look_;                             // time of the last call of find_traced_rank
  int traced_ = -1;                                         // result of that call; -1 again after reset()
  std::optional<Clock::time_point> probed_at_;              // in this wait
  bool has_warned_ = false;
  bool has_named_debugger_ = false;
};

}  // namespace lockstep::detail
