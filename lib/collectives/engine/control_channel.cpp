// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/control_channel.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <exception>
#include <tuple>

namespace lockstep::detail {

ControlChannel::ControlChannel(Transport& transport)
    : transport_(transport), peers_(static_cast<std::size_t>(transport.size())) {}

void ControlChannel::poll() {
  while (const auto received = transport_.poll()) {
    const ControlMessage control = decode(received->message);
    if (control.kind >= ControlKind::offer) {
      pair_messages_.push_back({received->source, control});
      continue;
    }
    if (control.kind == ControlKind::leave || (control.kind == ControlKind::abort && control.ends == Ends::job))
      left_ranks_.push_back({received->source, failure_of(control).text});
    if (control.epoch < epoch_) continue;
    Peer& peer = peers_[static_cast<std::size_t>(received->source)];
    switch (control.kind) {
      case ControlKind::header: peer.headers.push_back(control); break;
      case ControlKind::heartbeat: note_heartbeat(peer, control); break;
      case ControlKind::status:
        std::tie(peer.status_epoch, peer.status_sequence) = std::tie(control.epoch, control.sequence);
        peer.status = control.text.data();
        continue;
      case ControlKind::abort:
      case ControlKind::leave: note_abort(control); continue;
      default: continue;
    }
    std::tie(peer.seen_epoch, peer.seen_sequence) = std::tie(control.epoch, control.sequence);
  }
}

void ControlChannel::send_header(int target, std::uint64_t epoch, std::int64_t sequence, std::uint32_t round,
                                 const Summary& summary) {
  ControlMessage control;
  control.kind = ControlKind::header;
  control.epoch = epoch;
  control.sequence = sequence;
  control.round = round;
  control.summary = summary;
  transport_.post(target, encode(control));
}

void ControlChannel::send_heartbeat(std::uint64_t epoch, std::int64_t sequence, const Heartbeat& heartbeat) {
  ControlMessage control;
  control.kind = ControlKind::heartbeat;
  control.epoch = epoch;
  control.sequence = sequence;
  control.round = static_cast<std::uint32_t>(heartbeat.progress);
  control.awaited = heartbeat.awaited;
  control.culprit = heartbeat.traced;
  send_to_all(control);
}

void ControlChannel::send_status(std::uint64_t epoch, std::int64_t sequence, const WaitElsewhere& wait) {
  if (wait.is_long && wait.operation != long_wait_) {
    long_wait_ = wait.operation;
    for (Peer& peer : peers_) peer.knows_status = false;
  }
  for (int rank = 0; rank < transport_.size(); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.knows_status || peer.heartbeat_epoch != epoch || peer.heartbeat_sequence != sequence) continue;
    peer.knows_status = true;
    transport_.post(rank, encode(status_message(epoch, sequence, wait.operation)));
  }
}

void ControlChannel::send_to(int target, const ControlMessage& control) { transport_.post(target, encode(control)); }

std::optional<ControlChannel::PairMessage> ControlChannel::take_pair_message() {
  if (pair_messages_.empty()) return std::nullopt;
  const PairMessage message = pair_messages_.front();
  pair_messages_.pop_front();
  return message;
}

void ControlChannel::send_abort(std::uint64_t epoch, std::int64_t sequence, const Failure& failure) {
  send_to_all(abort_message(epoch, sequence, failure));
}

void ControlChannel::send_leave(int target, std::uint64_t epoch, std::int64_t sequence, const Failure& failure) {
  ControlMessage control = abort_message(epoch, sequence, failure);
  control.kind = ControlKind::leave;
  transport_.post_last(target, encode(control));
}

void ControlChannel::note_heartbeat(Peer& peer, const ControlMessage& control) {
  const bool is_first =
      std::tie(peer.heartbeat_epoch, peer.heartbeat_sequence) != std::tie(control.epoch, control.sequence);
  if ((!is_first && control.round != peer.heartbeat_progress) || control.culprit >= 0) {
    ++progress_heard_;
    begin_wait();
  }
  std::tie(peer.heartbeat_epoch, peer.heartbeat_sequence) = std::tie(control.epoch, control.sequence);
  peer.heartbeat_progress = control.round;
  peer.heartbeat_wait = heard_in_ = wait_;
  peer.knows_status = false;
  peer.awaited = control.awaited;
}

void ControlChannel::note_abort(const ControlMessage& control) {
  const auto [entry, is_new] = aborts_.try_emplace(control.epoch, Abort{control.sequence, failure_of(control)});
  if (!is_new && control.sequence < entry->second.sequence) entry->second = {control.sequence, failure_of(control)};
}

void ControlChannel::send_to_all(const ControlMessage& control) {
  const Message message = encode(control);
  std::exception_ptr first_error;
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank == transport_.rank()) continue;
    try {
      transport_.post(rank, message);
    } catch (...) {  // the following ranks get the message even if this one no longer exists
      if (!first_error) first_error = std::current_exception();
    }
  }
  if (first_error) std::rethrow_exception(first_error);
}

std::optional<Summary> ControlChannel::take_header(int source, std::uint64_t epoch, std::int64_t sequence,
                                                   std::uint32_t round) {
  auto& headers = peers_[static_cast<std::size_t>(source)].headers;
  while (!headers.empty() && headers.front().epoch < epoch) headers.pop_front();
  if (headers.empty() || headers.front().epoch > epoch) return std::nullopt;
  LOCKSTEP_CHECK(headers.front().sequence == sequence && headers.front().round == round);
  const Summary summary = headers.front().summary;
  headers.pop_front();
  return summary;
}

const Failure* ControlChannel::abort_record(std::uint64_t epoch, std::int64_t sequence) const {
  const auto found = aborts_.find(epoch);
  return found == aborts_.end() || sequence < found->second.sequence ? nullptr : &found->second.failure;
}

bool ControlChannel::has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return std::tie(peer.seen_epoch, peer.seen_sequence) >= std::tie(epoch, sequence);
}

bool ControlChannel::has_heartbeat(std::uint64_t epoch, std::int64_t sequence) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    return peer.heartbeat_epoch == epoch && peer.heartbeat_sequence == sequence;
  });
}

bool ControlChannel::has_heartbeat_of(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return peer.heartbeat_wait == wait_ &&
         std::tie(peer.heartbeat_epoch, peer.heartbeat_sequence) >= std::tie(epoch, sequence);
}

int ControlChannel::awaited_by(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const bool is_of_operation = std::tie(peer.heartbeat_epoch, peer.heartbeat_sequence) == std::tie(epoch, sequence);
  return is_of_operation && peer.heartbeat_wait == wait_ ? peer.awaited : -1;
}

std::string_view ControlChannel::status(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return std::tie(peer.status_epoch, peer.status_sequence) == std::tie(epoch, sequence) ? peer.status
                                                                                        : std::string_view();
}

std::int64_t ControlChannel::last_sequence(int rank) const {
  return peers_[static_cast<std::size_t>(rank)].seen_sequence;
}

void ControlChannel::enter_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  aborts_.erase(aborts_.begin(), aborts_.lower_bound(epoch));
}

}  // namespace lockstep::detail
