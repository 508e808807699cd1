// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/watchdog.hpp"

#include "base/log.hpp"
#include "base/mark.hpp"
#include "base/phrases.hpp"
#include "base/process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace lockstep::detail {
namespace {

/// " (moved 37.0 of 512.0 MiB)"; empty if the number of bytes is not known.
std::string moved_text(const DataProgress& progress) {
  if (progress.total_bytes == 0) return {};
  constexpr double kib = 1024;
  const bool is_large = progress.total_bytes >= 1024 * 1024;
  const double unit = is_large ? kib * kib : kib;
  return fmt::format(" (moved {:.1f} of {:.1f} {})", static_cast<double>(progress.moved_bytes) / unit,
                     static_cast<double>(progress.total_bytes) / unit, is_large ? "MiB" : "KiB");
}

std::string wait_phrase(const std::vector<int>& ranks) {
  return fmt::format("; {} wait{} in ", ranks_phrase(ranks), ranks.size() == 1 ? "s" : "");
}

std::string in_other_calls(const std::vector<int>& ranks) { return wait_phrase(ranks) + "other calls"; }

/// Ranks that wait in an operation of another communicator.
struct Elsewhere {
  std::vector<int> ranks;
  std::set<int> awaited;  ///< ranks of the other communicator
};
using WaitsElsewhere = std::map<std::string_view, Elsewhere>;  // by the operation

/// What does not fit into the message to other ranks, behind what these say before it, is cut; but no rank may be named
/// without its wait.
void add_waits(const WaitsElsewhere& elsewhere, std::string& text) {
  constexpr std::size_t room = FailureRecord::text_bytes - 80;
  std::vector<int> others;
  for (const auto& [operation, waits] : elsewhere) others.insert(others.end(), waits.ranks.begin(), waits.ranks.end());
  std::sort(others.begin(), others.end());
  for (const auto& [operation, waits] : elsewhere) {
    std::string wait = wait_phrase(waits.ranks) + std::string(operation);
    if (!waits.awaited.empty())
      wait += fmt::format(", for {} there", ranks_phrase(std::vector<int>(waits.awaited.begin(), waits.awaited.end())));
    std::vector<int> rest;
    std::set_difference(others.begin(), others.end(), waits.ranks.begin(), waits.ranks.end(), std::back_inserter(rest));
    if (text.size() + wait.size() + (rest.empty() ? 0 : in_other_calls(rest).size()) > room) continue;
    text += wait;
    others = std::move(rest);
  }
  if (!others.empty()) {
    const std::string wait = in_other_calls(others);
    text += text.size() + wait.size() <= room ? wait : fmt::format("; {} of them wait in other calls", others.size());
  }
}

}  // namespace

void Watchdog::count_time() {
  if (!head_since_) {
    clock_.restart();
    head_since_ = waits_since_ = clock_.now();
    progress_ = queue_.head().progress(transport_).count;
    heard_progress_ = control_.progress_heard();
    control_.begin_operation();
    return;
  }
  const Clock::duration pause = clock_.drive(fail_after());
  *head_since_ += pause;
  waits_since_ += pause;
  if (probed_at_) *probed_at_ += pause;
}

void Watchdog::restart() noexcept {
  if (!head_since_) return;
  count_time();
  control_.begin_wait();
  restart_clock();
}

void Watchdog::restart_clock() noexcept {
  waits_since_ = clock_.now();
  late_since_.reset();
  probed_at_.reset();
}

void Watchdog::reset() noexcept {
  head_since_.reset();
  late_since_.reset();
  last_heartbeat_.reset();
  sent_progress_ = 0;
  traced_ = -1;
  probed_at_.reset();
  has_warned_ = has_named_debugger_ = false;
}

std::optional<Failure> Watchdog::check(std::uint64_t epoch) {
  note_progress();
  suspend_for_debugger();
  const Clock::time_point now = clock_.now();
  const auto waited = now - waits_since_;
  send_heartbeat(epoch, waited);
  const auto total = options_.fail_after_total;
  if (total.count() > 0 && now - *head_since_ > total && clock_.may_fail(*head_since_ + total)) return total_timeout();
  if (waited > fail_after()) {
    if (!late_since_) late_since_ = now;
    // the others have had time to answer the probe, also if this rank is driven seldom
    const auto answer_time = std::max<Clock::duration>(fail_after() / 8, std::chrono::milliseconds(50));
    if (clock_.may_fail(*late_since_) && probed_at_ && now - *probed_at_ >= answer_time) return timeout(epoch);
  }
  // the warning comes a moment after this rank's heartbeat, so that heartbeats of the other ranks have arrived
  const auto answer_time = std::min<Clock::duration>(std::chrono::milliseconds(200), fail_after() / 10);
  if (!has_warned_ && waited > warn_after() + answer_time) warn(epoch, waited);
  return std::nullopt;
}

void Watchdog::note_progress() {
  const std::uint64_t count = queue_.head().is_agreed() ? queue_.head().progress(transport_).count : progress_;
  if (count == progress_ && control_.progress_heard() == heard_progress_) return;
  if (count != progress_) control_.begin_wait();
  progress_ = count;
  heard_progress_ = control_.progress_heard();
  restart_clock();
}

/// In each wait (see ControlChannel::begin_wait), a rank sends one heartbeat: when it has waited for long, or when it
/// receives a heartbeat of another rank. It sends further heartbeats while a debugger is attached to a rank of its
/// node, when it waits for other ranks than before, and when data has moved on this rank: a rank that waits for results
/// of this rank may see no other sign of progress. After three quarters of the deadline, a rank sends a probe: a rank
/// may have stopped after its heartbeat. All ranks that wait answer with a heartbeat.
void Watchdog::send_heartbeat(std::uint64_t epoch, Clock::duration waited) {
  const Clock::duration interval = heartbeat_interval();
  const Clock::time_point now = clock_.now();
  const bool is_first =
      !last_heartbeat_ && (waited > interval || has_waited_long() || control_.has_heartbeat(epoch, queue_.sequence()));
  const bool has_news = progress_ != sent_progress_ || traced_ >= 0;
  const bool is_due = sent_in_ != control_.wait() && (waited > interval || control_.has_heard());
  const bool may_repeat = last_heartbeat_ && now - *last_heartbeat_ > interval / 2;
  // a rank in a later operation asks whether this rank responds
  const auto latest = control_.latest_heartbeat();
  const bool is_asked = last_heartbeat_ && latest > answered_ && latest > std::pair(epoch, queue_.sequence());
  const bool probes = !probed_at_ && waited > fail_after() / 4 * 3;
  if (probes) {
    control_.begin_probe();
    probed_at_ = now;
  }
  const bool is_probed = control_.is_probed() && (!last_heartbeat_ || now - *last_heartbeat_ > fail_after() / 32);
  const bool is_certain = is_first || is_asked || probes || is_probed || (may_repeat && (has_news || is_due));
  if (!is_certain && (!may_repeat || now - last_list_ < interval / 2)) return;
  last_list_ = now;
  std::vector<int> awaited = awaited_for_heartbeat(epoch);
  if (!is_certain && awaited == sent_awaited_) return;
  answered_ = latest;
  last_heartbeat_ = now;
  sent_progress_ = progress_;
  sent_in_ = control_.wait();
  control_.send_heartbeat(epoch, queue_.sequence(), {progress_, awaited, traced_, probes});
  sent_awaited_ = std::move(awaited);
}

bool Watchdog::answer_while_abandoning(std::uint64_t epoch, int member, bool is_news) {
  if (!transport_.is_alive()) return false;
  control_.begin_abandoning();
  control_.poll();
  const auto latest = control_.latest_heartbeat();
  const bool is_asked = latest > answered_ && latest > std::pair(epoch, queue_.sequence());
  if (!is_asked && !control_.is_probed() && !is_news) return false;
  reached(Mark::answer_while_abandoning);
  // the progress is that of the last heartbeat: progress on a failed operation gives no rank more time
  control_.send_heartbeat(epoch, queue_.sequence(), {sent_progress_, {rank_of(member)}, traced_, false});
  answered_ = latest;
  return true;
}

int Watchdog::rank_of(int member) const {
  const auto leaders = transport_.node_leaders();
  int rank = 0;
  while (leaders[static_cast<std::size_t>(rank)] != leaders[static_cast<std::size_t>(transport_.rank())] ||
         member-- > 0)
    ++rank;
  return rank;
}

int Watchdog::find_traced_rank() {
  if (is_traced(getpid())) return transport_.rank();
  NodeGroup* const group = transport_.sharing_group();
  const auto leaders = transport_.node_leaders();
  int member = 0;
  for (int rank = 0; group != nullptr && rank < transport_.size(); ++rank) {
    if (leaders[static_cast<std::size_t>(rank)] != leaders[static_cast<std::size_t>(transport_.rank())]) continue;
    const std::uint64_t process = group->control_block(member++).process.value.load(std::memory_order_relaxed);
    if (process != 0 && is_traced(static_cast<std::int64_t>(process))) return rank;
  }
  return -1;
}

void Watchdog::suspend_for_debugger() {
  const Clock::time_point now = clock_.now();
  const auto interval = std::min<Clock::duration>(std::chrono::seconds(1), fail_after() / 4);
  if (now - waits_since_ < interval || now - last_look_ < interval) return;
  last_look_ = now;
  traced_ = find_traced_rank();
  if (traced_ < 0) return;
  *head_since_ += now - waits_since_;
  restart_clock();
  if (std::exchange(has_named_debugger_, true)) return;
  log_warning("{}: a debugger is attached to rank {}: the deadline of operation #{} ({}) is suspended", queue_.name(),
              traced_, queue_.sequence(), describe(queue_.head().descriptor()));
}

std::chrono::milliseconds Watchdog::fail_after() const noexcept {
  return queue_.head().fail_after(options_.fail_after);
}

std::chrono::milliseconds Watchdog::warn_after() const noexcept {
  return queue_.head().warn_after(options_.warn_after);
}

Watchdog::Clock::duration Watchdog::heartbeat_interval() const noexcept {
  return std::min<Clock::duration>(warn_after(), fail_after() / 2);
}

bool Watchdog::has_waited_long() const noexcept { return has_waited(heartbeat_interval()); }

/// Logs the missing ranks, but only on the lowest rank that responds.
void Watchdog::warn(std::uint64_t epoch, Clock::duration waited) {
  has_warned_ = true;
  const auto missing = missing_ranks(epoch);
  int speaker = 0;
  const auto is_here = [&](int rank) {  // and so warns of the same operation
    return control_.responds(rank, epoch, queue_.sequence()) && !control_.is_in_earlier_epoch(rank, epoch);
  };
  while (speaker < transport_.rank() && !is_here(speaker)) ++speaker;
  if (speaker != transport_.rank()) return;
  for (const int rank : missing) {
    const std::int64_t last = std::max(control_.last_sequence(rank), agreement_.last_sequence(rank, epoch));
    const std::string known = last < 0 ? fmt::format("rank {} has started no operation as far as is known", rank)
                                       : fmt::format("the last known operation of rank {} is #{}", rank, last);
    log_warning("{}: this rank has waited {:.1f} s in operation #{} ({}) for rank {}; {}", queue_.name(),
                seconds(waited), queue_.sequence(), describe(queue_.head().descriptor()), rank, known);
  }
}

std::vector<int> Watchdog::missing_ranks(std::uint64_t epoch) const {
  if (!queue_.head().is_agreed()) return ranks_that_hold_up(epoch);
  // if all ranks have arrived but data is missing, a rank that responds does not count as missing
  const std::vector<int> awaited = awaited_ranks();
  const std::vector<int> silent = silent_ranks(awaited, epoch);
  return silent.empty() ? silent_ranks_behind(awaited, epoch) : silent;
}

/// A rank knows directly only of some ranks whether they have arrived: of those of its node, and of those whose
/// messages it awaits. What it does not know it must not guess: a rank of which it has heard nothing may have completed
/// the operation. What others say of the ranks of its own node is older than what it sees itself, but for the leader,
/// whose messages it does not see.
std::vector<int> Watchdog::ranks_that_hold_up(std::uint64_t epoch) const {
  const std::int64_t sequence = queue_.sequence();
  const auto leaders = transport_.node_leaders();
  const int leader = leaders[static_cast<std::size_t>(transport_.rank())];
  const bool sees_node = transport_.sharing_group() != nullptr;
  const bool sees_leader = transport_.node_group() != nullptr;
  std::vector<int> ranks = awaited_ranks();
  for (int rank = 0; rank < transport_.size(); ++rank) {
    for (const int awaited : control_.awaited_by(rank, epoch, sequence, since())) {
      const bool is_seen =
          sees_node && (sees_leader || awaited != leader) && leaders[static_cast<std::size_t>(awaited)] == leader;
      if (!is_seen) ranks.push_back(awaited);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::erase_if(ranks, [&](int rank) {
    return rank == transport_.rank() || agreement_.has_come(rank, epoch, sequence + 1) ||
           control_.responds(rank, epoch, sequence, since());
  });
  if (!ranks.empty()) return ranks;
  // A rank whose last heartbeat is of an earlier epoch, and that waited there for no missing rank, has not come here.
  ranks = awaited_ranks();
  std::erase_if(ranks, [&](int rank) {
    return !control_.is_in_earlier_epoch(rank, epoch) || agreement_.has_come(rank, epoch, sequence);
  });
  if (!ranks.empty()) reached(Mark::rank_in_earlier_epoch);
  return ranks;
}

std::vector<int> Watchdog::awaited_ranks() const {
  std::vector<int> ranks;
  if (queue_.head().is_agreed()) {
    ranks = queue_.head().awaited_ranks();
  } else if (agreement_.is_open()) {
    ranks = agreement_.awaited();
  }
  std::erase(ranks, transport_.rank());
  return ranks;
}

std::vector<int> Watchdog::awaited_for_heartbeat(std::uint64_t epoch) const {
  const std::vector<int> awaited = awaited_ranks();
  const auto responds = [&](int rank) { return control_.responds(rank, epoch, queue_.sequence(), since()); };
  std::vector<int> ranks;
  std::remove_copy_if(awaited.begin(), awaited.end(), std::back_inserter(ranks), responds);
  std::copy_if(awaited.begin(), awaited.end(), std::back_inserter(ranks), responds);
  if (ranks.size() > ControlMessage::most_awaited) ranks.resize(ControlMessage::most_awaited);
  return ranks;
}

/// If a rank has completed its part of the operation, it may be in another call. So a missing heartbeat does not prove
/// that the rank has failed.
std::vector<int> Watchdog::silent_ranks(std::vector<int> ranks, std::uint64_t epoch) const {
  std::erase_if(ranks, [&](int rank) {
    return rank == transport_.rank() || control_.has_heartbeat_of(rank, epoch, queue_.sequence(), since());
  });
  return ranks;
}

std::vector<int> Watchdog::silent_ranks_behind(std::vector<int> ranks, std::uint64_t epoch) const {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // all ranks have arrived, so what a rank said in an earlier operation is over
    if (!control_.has_heartbeat_of(ranks[i], epoch, queue_.sequence(), since())) continue;
    for (const int next : control_.awaited_by(ranks[i], epoch, queue_.sequence(), since())) {
      if (std::find(ranks.begin(), ranks.end(), next) == ranks.end()) ranks.push_back(next);
    }
  }
  ranks = silent_ranks(std::move(ranks), epoch);
  if (!ranks.empty()) reached(Mark::rank_behind_others);
  return ranks;
}

std::string Watchdog::cause_of_wait(const std::vector<int>& missing, std::uint64_t epoch) const {
  const Operation& head = queue_.head();
  std::string cause = missing.empty() ? " without progress" : " waiting for " + ranks_phrase(missing);
  if (head.is_agreed()) {
    cause += moved_text(head.progress(transport_));
  } else if (!missing.empty() && std::none_of(missing.begin(), missing.end(), [&](int rank) {
               return agreement_.has_come(rank, epoch, queue_.sequence());
             })) {
    cause += ", which made this call too late or not at all";  // a rank that is late throws the same text
  }
  if (!missing.empty()) return cause;
  if (const std::vector<int> awaited = awaited_ranks(); head.is_agreed() && !awaited.empty()) {
    cause += fmt::format(": data of {} did not arrive, but {} responded", ranks_phrase(awaited), ranks_phrase(awaited));
  } else {
    cause += fmt::format(": {}", head.awaited());
  }
  std::vector<int> all(static_cast<std::size_t>(transport_.size()));
  std::iota(all.begin(), all.end(), 0);
  if (const auto silent = silent_ranks(std::move(all), epoch); !silent.empty())
    cause += "; no heartbeat from " + ranks_phrase(silent);
  return cause;
}

Failure Watchdog::timeout(std::uint64_t epoch) const {
  const std::vector<int> missing = missing_ranks(epoch);
  WaitsElsewhere elsewhere;
  std::optional<int> silent;
  for (const int rank : missing) {
    if (const WaitElsewhere* const wait = control_.status(rank, epoch, queue_.sequence())) {
      Elsewhere& waits = elsewhere[wait->operation];
      waits.ranks.push_back(rank);
      waits.awaited.insert(wait->awaited.begin(), wait->awaited.end());
    } else if (!silent) {
      silent = rank;
    }
  }
  std::string text = fmt::format("{}: timed out after {} s{}", queue_.text_of(queue_.head()), seconds(fail_after()),
                                 cause_of_wait(missing, epoch));
  add_waits(elsewhere, text);
  const int first = missing.empty() ? -1 : missing.front();
  return {Code::deadline_exceeded, std::move(text),
          queue_.context_of(silent.value_or(first))};  // a rank that waits elsewhere is seldom the cause
}

Failure Watchdog::total_timeout() const {
  const Operation& head = queue_.head();
  return {
      Code::deadline_exceeded,
      fmt::format("{}: not complete after {} s, the limit of the total time (fail_after_total){}", queue_.text_of(head),
                  seconds(options_.fail_after_total), head.is_agreed() ? moved_text(head.progress(transport_)) : ""),
      queue_.context_of(-1)};
}

}  // namespace lockstep::detail
