// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/control_channel.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/mark.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <tuple>

namespace lockstep::detail {

namespace {

/// Removes and returns the first entry that `source` sent in `epoch`; empty if there is none. Messages of one rank
/// arrive in order, so this entry must be of operation `sequence` and round `round`.
template <class Entry>
std::optional<Entry> take(std::vector<Entry>& entries, int source, std::uint64_t epoch, std::int64_t sequence,
                          std::uint32_t round) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& each) {
    return each.source == source && each.header.epoch == epoch;
  });
  if (found == entries.end()) return std::nullopt;
  LOCKSTEP_CHECK(found->header.sequence == sequence && found->header.round == round);
  std::optional<Entry> entry = std::move(*found);
  entries.erase(found);
  return entry;
}

void put_awaited(const std::vector<int>& ranks, ControlMessage& control) {
  std::copy_n(ranks.begin(), std::min(ranks.size(), ControlMessage::most_awaited), control.awaited.begin());
}

std::vector<int> awaited_in(const ControlMessage& control) {
  return {control.awaited.begin(), std::find(control.awaited.begin(), control.awaited.end(), -1)};
}

}  // namespace

ControlChannel::ControlChannel(Transport& transport) : transport_(transport) {}

const ControlChannel::Peer& ControlChannel::peer(int rank) const {
  static const Peer unheard;
  const auto found = peers_.find(rank);
  return found == peers_.end() ? unheard : found->second;
}

void ControlChannel::poll() {
  while (poll_one()) {}
}

bool ControlChannel::poll_one() {
  for (; !untold_.empty() && untold_.back().second < epoch_; untold_.pop_back())
    tell_end(untold_.back().first, untold_.back().second);
  if (!unsorted_) unsorted_ = transport_.poll();
  if (!unsorted_) return false;
  sort(*unsorted_);
  unsorted_.reset();
  return true;
}

void ControlChannel::sort(const ReceivedMessage& received) {
  if (!is_well_formed(received.bytes, transport_.size())) {
    static std::atomic<bool> has_warned{false};
    if (!has_warned.exchange(true)) {
      log_warning(
          "ignoring a message of {} bytes from rank {}, which this version of lockstep does not know; later ones "
          "are ignored without a warning",
          received.bytes.size(), received.source);
    }
    return;
  }
  ControlKind kind{};
  std::memcpy(&kind, received.bytes.data(), sizeof(kind));
  if (kind == ControlKind::header) {
    AgreementHeader header;
    std::memcpy(&header, received.bytes.data(), sizeof(header));
    if (header.epoch < epoch_) return reached(Mark::late_header);
    const auto data = received.bytes.subspan(sizeof(header));
    Peer& peer = peers_[received.source];
    headers_.push_back({received.source, header, {data.begin(), data.end()}});
    std::tie(peer.seen_epoch, peer.seen_sequence) = std::tie(header.epoch, header.sequence);
    return;
  }
  const ControlMessage control = control_message_of(received.bytes);
  if (control.kind >= ControlKind::offer) {
    const auto data = data_of(received.bytes);
    pair_messages_.push_back({received.source, control, {data.begin(), data.end()}});
    if (control.kind == ControlKind::withdrawal) ++withdrawals_;
    return;
  }
  note(received.source, control);
  // last, so that nothing is noted twice if an allocation fails
  if (control.kind == ControlKind::death) {
    gone_ranks_.push_back({control.failure.rank, false, text_of(control.failure), control.epoch, control.sequence});
    return;
  }
  // another rank may repeat the failure of a rank that ends the job
  const bool ends_job = control.kind == ControlKind::abort && control.failure.ends == Ends::job;
  if (control.kind == ControlKind::leave || (ends_job && control.failure.rank == received.source))
    gone_ranks_.push_back({received.source, true, text_of(control.failure), control.epoch, control.sequence});
}

void ControlChannel::note(int source, const ControlMessage& control) {
  if (control.epoch < epoch_) {
    if (control.kind == ControlKind::heartbeat) {
      reached(Mark::late_heartbeat);
      note_heartbeat(peers_[source], control);
      tell_end(source, control.epoch);
    } else if (control.kind == ControlKind::abort) {
      if (Failure failure = failure_of(control.failure); failure.is_loss()) {
        reached(Mark::late_loss);
        if (!late_loss_) late_loss_ = std::move(failure);
      }
    }
    return;
  }
  Peer& peer = peers_[source];
  switch (control.kind) {
    case ControlKind::summary: summaries_.push_back({source, control}); break;
    case ControlKind::heartbeat:
      if (is_abandoning_ && control.epoch == epoch_) untold_.emplace_back(source, epoch_);
      note_heartbeat(peer, control);
      break;
    case ControlKind::status:
      std::tie(peer.status_epoch, peer.status_sequence) = std::tie(control.epoch, control.sequence);
      peer.status = {text_of(control.failure), false, awaited_in(control)};
      return;
    case ControlKind::abort:
    case ControlKind::leave: note_abort(control); return;
    default: return;
  }
  std::tie(peer.seen_epoch, peer.seen_sequence) = std::tie(control.epoch, control.sequence);
}

/// Tells a rank that still waits in an ended epoch how it has ended: what others have sent to it is late, or they have
/// failed while they sent it.
void ControlChannel::tell_end(int target, std::uint64_t epoch) {
  const auto end = ends_.find(epoch);
  if (end != ends_.end()) send_if_possible(target, abort_message(epoch, end->second));
}

void ControlChannel::send_if_possible(int target, const ControlMessage& control) {
  try {
    send_to(target, control);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a rank that no longer exists needs no message
  }
}

void ControlChannel::send_summary(int target, std::uint64_t epoch, std::int64_t sequence, std::uint32_t round,
                                  const Summary& summary) {
  ControlMessage control;
  control.kind = ControlKind::summary;
  control.epoch = epoch;
  control.sequence = sequence;
  control.round = round;
  control.summary = summary;
  send_to(target, control);
}

void ControlChannel::send_heartbeat(std::uint64_t epoch, std::int64_t sequence, const Heartbeat& heartbeat) {
  ControlMessage control;
  control.kind = ControlKind::heartbeat;
  control.epoch = epoch;
  control.sequence = sequence;
  control.round = static_cast<std::uint32_t>(heartbeat.progress);
  put_awaited(heartbeat.awaited, control);
  control.traced = heartbeat.traced;
  control.is_probe = heartbeat.is_probe;
  is_probed_ = false;
  send_to_all(control);
}

void ControlChannel::send_status(std::uint64_t epoch, std::int64_t sequence, const WaitElsewhere& wait) {
  if (wait.is_long && wait.operation != long_wait_) {
    long_wait_ = wait.operation;
    for (auto& [rank, peer] : peers_) peer.knows_status = false;
  }
  for (auto& [rank, peer] : peers_) {
    // a rank in a later epoch waits for this one, which has not seen the end of its epoch
    const bool waits_here = peer.heartbeat_epoch == epoch && peer.heartbeat_sequence == sequence;
    if (peer.knows_status || (!waits_here && peer.heartbeat_epoch <= epoch)) continue;
    peer.knows_status = true;
    ControlMessage control = status_message(peer.heartbeat_epoch, peer.heartbeat_sequence, wait.operation);
    put_awaited(wait.awaited, control);
    send_to(rank, control);
  }
}

bool ControlChannel::has_withdrawal(int source, std::int64_t number) const {
  return withdrawals_ > 0 && std::any_of(pair_messages_.begin(), pair_messages_.end(), [&](const PairMessage& each) {
           return each.source == source && each.message.kind == ControlKind::withdrawal &&
                  each.message.sequence == number;
         });
}

void ControlChannel::send_to(int target, const ControlMessage& control) { transport_.post(target, bytes_of(control)); }

void ControlChannel::send_death(std::uint64_t epoch, std::int64_t sequence, int rank, const std::string& text) {
  reached(Mark::death_told);
  ControlMessage control = abort_message(epoch, {sequence, {Code::unavailable, text, {rank, -1, {}, -1}}});
  control.kind = ControlKind::death;
  for (int target = 0; target < transport_.size(); ++target) {
    if (target != transport_.rank() && target != rank) send_if_possible(target, control);
  }
}

void ControlChannel::send_leave(int target, std::uint64_t epoch, const EpochEnd& end) {
  if (end.sequence == 0) {  // no operation of this epoch shows that all ranks have heard of the last failures
    for (const auto& [ended, how] : ends_) send_to(target, abort_message(ended, how));
  }
  ControlMessage control = abort_message(epoch, end);
  control.kind = ControlKind::leave;
  transport_.post_last(target, bytes_of(control));
}

void ControlChannel::note_heartbeat(Peer& peer, const ControlMessage& control) {
  const bool is_first =
      std::tie(peer.heartbeat_epoch, peer.heartbeat_sequence) != std::tie(control.epoch, control.sequence);
  if ((!is_first && control.round != peer.heartbeat_progress) || control.traced >= 0) {
    ++progress_heard_;
    begin_wait();
  }
  std::tie(peer.heartbeat_epoch, peer.heartbeat_sequence) = std::tie(control.epoch, control.sequence);
  peer.heartbeat_progress = control.round;
  peer.heartbeat_wait = heard_in_ = wait_;
  peer.heartbeat_operation = operation_;
  peer.heartbeat_probe = probe_;
  is_probed_ = is_probed_ || control.is_probe;
  peer.knows_status = false;
  peer.awaited = awaited_in(control);
  latest_heartbeat_ = std::max(latest_heartbeat_, {control.epoch, control.sequence});
}

void ControlChannel::note_abort(const ControlMessage& control) {
  EpochEnd end{control.sequence, failure_of(control.failure)};
  if (end.failure.is_loss() && end.failure.ends != Ends::communicator_here)
    losses_.try_emplace(control.epoch, end.failure);
  const auto [entry, is_new] = aborts_.try_emplace(control.epoch, end);
  if (!is_new && end.sequence < entry->second.sequence) entry->second = std::move(end);
}

void ControlChannel::send_to_all(const ControlMessage& control) {
  std::exception_ptr first_error;
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank == transport_.rank()) continue;
    try {
      send_to(rank, control);
    } catch (...) {  // the next ranks get the message even if `rank` no longer exists
      if (!first_error) first_error = std::current_exception();
    }
  }
  if (first_error) std::rethrow_exception(first_error);
}

std::optional<ControlChannel::Header> ControlChannel::take_header(int source, std::uint64_t epoch,
                                                                  std::int64_t sequence, std::uint32_t round) {
  return take(headers_, source, epoch, sequence, round);
}

std::optional<Summary> ControlChannel::take_summary(int source, std::uint64_t epoch, std::int64_t sequence,
                                                    std::uint32_t round) {
  const auto taken = take(summaries_, source, epoch, sequence, round);
  return taken ? std::optional(taken->header.summary) : std::nullopt;
}

const Failure* ControlChannel::abort_record(std::uint64_t epoch, std::int64_t sequence) const {
  const auto found = aborts_.find(epoch);
  return found == aborts_.end() || sequence < found->second.sequence ? nullptr : &found->second.failure;
}

bool ControlChannel::has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const Peer& from = peer(rank);
  return std::tie(from.seen_epoch, from.seen_sequence) >= std::tie(epoch, sequence);
}

bool ControlChannel::counts(const Peer& from, Since since) const noexcept {
  return from.heartbeat_wait == wait_ && (since == Since::wait || from.heartbeat_probe == probe_);
}

bool ControlChannel::has_heartbeat_of(int rank, std::uint64_t epoch, std::int64_t sequence, Since since) const {
  const Peer& from = peer(rank);
  return counts(from, since) && std::tie(from.heartbeat_epoch, from.heartbeat_sequence) >= std::tie(epoch, sequence);
}

bool ControlChannel::responds(int rank, std::uint64_t epoch, std::int64_t sequence, Since since) const {
  const Peer& from = peer(rank);
  if (!counts(from, since) || from.heartbeat_epoch > epoch || from.heartbeat_sequence < 0) return false;
  const bool is_here = from.heartbeat_epoch == epoch && from.heartbeat_sequence >= sequence;
  return is_here || from.heartbeat_operation == operation_;
}

std::span<const int> ControlChannel::awaited_by(int rank, std::uint64_t epoch, std::int64_t sequence,
                                                Since since) const {
  const Peer& from = peer(rank);
  if (!responds(rank, epoch, sequence, since)) return {};
  if (from.heartbeat_epoch == epoch && from.heartbeat_sequence > sequence) return {};
  return from.awaited;
}

const WaitElsewhere* ControlChannel::status(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const Peer& from = peer(rank);
  const bool is_of_operation = std::tie(from.status_epoch, from.status_sequence) == std::tie(epoch, sequence);
  return is_of_operation && !from.status.operation.empty() ? &from.status : nullptr;
}

std::int64_t ControlChannel::last_sequence(int rank) const { return peer(rank).seen_sequence; }

void ControlChannel::note_end(std::uint64_t epoch, EpochEnd end) { ends_.insert_or_assign(epoch, std::move(end)); }

void ControlChannel::enter_epoch(std::uint64_t epoch) noexcept {
  epoch_ = epoch;
  is_abandoning_ = false;
  if (ends_.size() > kept_ends) ends_.erase(ends_.begin());
  const auto is_old = [&](const auto& each) { return each.header.epoch < epoch; };
  std::erase_if(headers_, is_old);
  std::erase_if(summaries_, is_old);
  aborts_.erase(aborts_.begin(), aborts_.lower_bound(epoch));
  if (!losses_.empty() && losses_.begin()->first < epoch) {
    if (!late_loss_) late_loss_ = std::move(losses_.begin()->second);
    losses_.erase(losses_.begin(), losses_.lower_bound(epoch));
  }
}

}  // namespace lockstep::detail
