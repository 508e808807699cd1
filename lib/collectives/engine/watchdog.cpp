// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/watchdog.hpp"

#include "base/log.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::detail {

void Watchdog::count_time() {
  const Clock::time_point now = Clock::now();
  if (!head_since_) {
    head_since_ = now;
  } else if (now - last_driven_ > std::chrono::seconds(1)) {
    *head_since_ += now - last_driven_;
  }
  last_driven_ = now;
}

void Watchdog::reset() noexcept {
  head_since_.reset();
  has_sent_heartbeat_ = has_warned_ = false;
}

std::optional<Failure> Watchdog::check(std::uint64_t epoch) {
  const auto waited = Clock::now() - *head_since_;
  const auto heartbeat_after = std::min<Clock::duration>(options_.warn_after, fail_after() / 2);
  // every rank that waits for long sends one heartbeat, and so does one that receives another's
  if (!has_sent_heartbeat_ && (waited > heartbeat_after || control_.has_heartbeat(epoch, queue_.sequence()))) {
    has_sent_heartbeat_ = true;
    control_.send_heartbeat(epoch, queue_.sequence());
    options_.on_heartbeat(queue_.text_of(queue_.head()));
  }
  if (waited > fail_after()) return timeout(epoch);
  // a moment after the heartbeat, when those of the others have come
  const auto answer_time = std::min<Clock::duration>(std::chrono::milliseconds(200), fail_after() / 10);
  if (!has_warned_ && waited > options_.warn_after + answer_time) warn(epoch, waited);
  return std::nullopt;
}

std::chrono::milliseconds Watchdog::fail_after() const noexcept {
  const std::chrono::milliseconds own = queue_.head().fail_after();
  return own.count() > 0 ? own : options_.fail_after;
}

/// The lowest rank that is here logs for all.
void Watchdog::warn(std::uint64_t epoch, Clock::duration waited) {
  has_warned_ = true;
  const auto missing = missing_ranks(epoch);
  int speaker = 0;
  while (speaker < transport_.rank() && std::find(missing.begin(), missing.end(), speaker) != missing.end()) ++speaker;
  if (speaker != transport_.rank()) return;
  for (const int rank : missing) {
    const std::int64_t last = std::max(control_.last_sequence(rank), agreement_.last_sequence(rank, epoch));
    const std::string known = last < 0 ? fmt::format("no operation seen from rank {}", rank)
                                       : fmt::format("its last known operation is #{}", last);
    log_warning("{}: this rank has waited {:.1f} s in operation #{} ({}) for rank {}; {}", queue_.name(),
                std::chrono::duration<double>(waited).count(), queue_.sequence(), describe(queue_.head().descriptor()),
                rank, known);
  }
}

std::vector<int> Watchdog::missing_ranks(std::uint64_t epoch) const {
  std::vector<int> missing;
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank == transport_.rank() || control_.has_come(rank, epoch, queue_.sequence()) ||
        agreement_.has_come(rank, epoch, queue_.sequence()))
      continue;
    missing.push_back(rank);
  }
  const Operation& head = queue_.head();
  // all ranks are here, but data does not come
  if (missing.empty() && head.is_agreed()) missing = head.awaited_ranks();
  return missing;
}

/// A rank that has completed its part may be in another call, so silence does not prove that it has failed.
std::vector<int> Watchdog::silent_ranks(std::uint64_t epoch) const {
  std::vector<int> silent;
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank != transport_.rank() && !control_.has_come(rank, epoch, queue_.sequence())) silent.push_back(rank);
  }
  return silent;
}

Failure Watchdog::timeout(std::uint64_t epoch) const {
  const auto named = [](const std::vector<int>& ranks) {
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  };
  const std::vector<int> missing = missing_ranks(epoch);
  const std::string cause =
      missing.empty() ? fmt::format(": {}", queue_.head().awaited()) : fmt::format(" waiting for {}", named(missing));
  std::string known;
  if (const auto silent = silent_ranks(epoch); missing.empty() && !silent.empty())
    known = fmt::format("; no heartbeat from {}", named(silent));
  for (const int rank : missing) {
    const std::string_view status = control_.status(rank, epoch, queue_.sequence());
    if (!status.empty()) known += fmt::format("; rank {} waits in {}", rank, status);
  }
  return {Code::deadline_exceeded,
          fmt::format("{}: timed out after {} s{}{}", queue_.text_of(queue_.head()),
                      std::chrono::duration<double>(fail_after()).count(), cause, known),
          queue_.context_of(missing.empty() ? -1 : missing.front())};
}

}  // namespace lockstep::detail
