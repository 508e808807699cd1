// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/presence.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::chrono::milliseconds time_between_looks{50};
constexpr std::chrono::seconds time_of_late_data{2};

}  // namespace

Presence::Presence(Transport& transport, ControlChannel& control, const Agreement& agreement,
                   const OperationQueue& queue)
    : transport_(transport),
      control_(control),
      agreement_(agreement),
      queue_(queue),
      group_(transport.sharing_group()),
      all_see_deaths_(transport.node_group() != nullptr) {
  const auto leaders = transport.node_leaders();
  int index = 0;
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (leaders[static_cast<std::size_t>(rank)] != leaders[static_cast<std::size_t>(transport.rank())]) continue;
    const int member_index = index++;
    if (rank == transport.rank()) continue;
    Member member{rank, member_index, transport.process_of(member_index)};
    if (group_ != nullptr) transport.sharing_group()->watch(member_index, member.process);
    all_see_deaths_ = all_see_deaths_ && member.process != nullptr;
    if (group_ != nullptr || member.process != nullptr) members_.push_back(std::move(member));
  }
}

void Presence::look(Clock::time_point now) {
  const std::size_t losses = transport_.losses();
  if (now < next_look_ && losses == known_losses_) return;
  known_losses_ = losses;
  next_look_ = now + time_between_looks;
  const auto add = [&](Gone gone) {
    const auto known = std::find_if(gone_.begin(), gone_.end(), [&](const Gone& one) { return one.rank == gone.rank; });
    if (known != gone_.end()) {
      known->is_told = known->is_told || gone.is_told;
      // how a process has ended says more than that its connection has
      if (known->is_cut_off && !gone.is_cut_off && !gone.is_told) known->text = gone.text;
      known->is_cut_off = known->is_cut_off || gone.is_cut_off;
      // its own message may come after the end of a connection
      if (gone.has_left && !known->has_left) *known = std::move(gone);
      return;
    }
    if (!gone.is_cut_off) std::erase_if(members_, [&](const Member& member) { return member.rank == gone.rank; });
    gone_.push_back(std::move(gone));
  };
  const auto told = control_.gone_ranks();
  for (; known_gone_ranks_ < told.size(); ++known_gone_ranks_) {
    const auto& one = told[known_gone_ranks_];
    add({one.rank, one.has_left, one.text, now, {one.epoch, one.sequence}, !one.has_left});
  }
  for (const int rank : transport_.absent_ranks()) {
    add({rank, true, fmt::format("rank {} has destroyed its Environment and has made no communicator", rank), now});
  }
  for (const LostRank& lost : transport_.lost_ranks())
    add({lost.rank, lost.has_left, fmt::format("rank {}: {}", lost.rank, lost.why), now, {}, false, true});
  std::vector<Gone> ended;
  std::erase_if(members_, [&](const Member& member) {
    auto found = state_of(member, now);
    if (!found) return false;
    ended.push_back(*std::move(found));
    return true;
  });
  for (Gone& gone : ended) add(std::move(gone));
}

std::optional<Presence::Gone> Presence::state_of(const Member& member, Clock::time_point now) const {
  const bool has_ended = member.process != nullptr && member.process->has_ended();
  // read after `has_ended`: a process sets its departure before it ends, so the departure cannot be missed
  const Departure departure = group_ != nullptr ? group_->departure_of(member.index) : Departure::none;
  if (departure == Departure::none && !has_ended) return std::nullopt;
  Gone gone{member.rank, departure != Departure::none, {}, now};
  if (gone.has_left)
    gone.first_missed.first = group_->control_block(member.index).epoch.value.load(std::memory_order_relaxed);
  switch (departure) {
    case Departure::none: gone.text = fmt::format("rank {} {}", member.rank, member.process->end_text()); break;
    case Departure::orderly:
      gone.text = fmt::format("rank {} has destroyed its communicator or strategy", member.rank);
      break;
    case Departure::by_finalize: gone.text = fmt::format("rank {} has finalized MPI", member.rank); break;
    case Departure::by_exception:
      gone.text = fmt::format("rank {} takes no further part: an exception has destroyed its communicator or strategy",
                              member.rank);
      break;
  }
  return gone;
}

bool Presence::is_awaited(const Gone& one, std::uint64_t epoch, Clock::time_point now) const {
  const Operation& head = queue_.head();
  if (!head.is_agreed()) {
    // what the rank has sent before its end may have been lost with its process
    const bool may_be_lost = !one.has_left && now - one.since > time_of_late_data;
    if (one.first_missed > std::pair(epoch, queue_.sequence()) && !may_be_lost) return false;
    // if a process ended before all ranks arrived at the operation, the operation cannot complete
    return !one.has_left || (!control_.has_come(one.rank, epoch, queue_.sequence()) &&
                             !agreement_.has_come(one.rank, epoch, queue_.sequence()));
  }
  if (one.has_left) return false;
  const std::vector<int> awaited = head.awaited_ranks();
  return awaited.empty() || std::find(awaited.begin(), awaited.end(), one.rank) != awaited.end();
}

bool Presence::is_source_of_head(int rank) const {
  if (!queue_.head().is_agreed()) return false;
  const std::vector<int> awaited = queue_.head().awaited_ranks();
  return std::find(awaited.begin(), awaited.end(), rank) != awaited.end();
}

bool Presence::reports_first() const { return members_.empty() || members_.front().rank > transport_.rank(); }

/// A rank of another node may wait for data of a rank that has ended, and does not see its end. The ranks of this node
/// may have what they need.
void Presence::tell_deaths(std::uint64_t epoch, Clock::time_point now) {
  if (all_see_deaths_) return;
  for (Gone& one : gone_) {
    if (one.has_left || one.is_told || (!reports_first() && now - one.since < message_time)) continue;
    one.is_told = true;
    // the end of a connection says nothing of the operations at which the rank had arrived elsewhere
    const std::pair<std::uint64_t, std::int64_t> place(epoch, queue_.sequence());
    const auto [missed_epoch, missed] = one.is_cut_off ? std::pair<std::uint64_t, std::int64_t>() : place;
    control_.send_death(missed_epoch, missed, one.rank, one.text);
  }
}

std::optional<Failure> Presence::failure_of_head(std::uint64_t epoch, Clock::time_point now) {
  look(now);
  if (gone_.empty()) return std::nullopt;
  tell_deaths(epoch, now);
  // the control message of the rank that reports first ends the wait of the other ranks
  const auto delay = reports_first() ? message_time : 2 * message_time;
  std::vector<const Gone*> awaited;
  for (const Gone& one : gone_) {
    const bool is_over = now - one.since >= delay || (one.is_cut_off && is_source_of_head(one.rank));
    if (is_over && is_awaited(one, epoch, now)) awaited.push_back(&one);
  }
  if (awaited.empty()) return std::nullopt;
  std::vector<std::string_view> texts;
  for (const Gone* const one : awaited) texts.push_back(one->text);
  return Failure{Code::unavailable, fmt::format("{}: {}", queue_.text_of(queue_.head()), fmt::join(texts, "; ")),
                 queue_.context_of(awaited.front()->rank), Ends::communicator};
}

}  // namespace lockstep::detail
