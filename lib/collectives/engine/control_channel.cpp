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
      pair_mail_.push_back({received->source, control});
      continue;
    }
    if (control.epoch < epoch_) continue;
    Peer& peer = peers_[static_cast<std::size_t>(received->source)];
    switch (control.kind) {
      case ControlKind::header: peer.headers.push_back(control); break;
      case ControlKind::roll_call:
        std::tie(peer.called_epoch, peer.called_sequence) = std::tie(control.epoch, control.sequence);
        break;
      case ControlKind::elsewhere:
        std::tie(peer.elsewhere_epoch, peer.elsewhere_sequence) = std::tie(control.epoch, control.sequence);
        peer.elsewhere = control.text.data();
        continue;
      case ControlKind::failure: note_departure(control); continue;
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

void ControlChannel::send_roll_call(std::uint64_t epoch, std::int64_t sequence) {
  ControlMessage control;
  control.kind = ControlKind::roll_call;
  control.epoch = epoch;
  control.sequence = sequence;
  send_to_all(control);
}

void ControlChannel::send_whereabouts(std::uint64_t epoch, std::int64_t sequence, const std::string& what) {
  send_to_all(whereabouts_message(epoch, sequence, what));
}

void ControlChannel::send_to(int target, const ControlMessage& control) { transport_.post(target, encode(control)); }

std::optional<ControlChannel::PairMail> ControlChannel::take_pair_mail() {
  if (pair_mail_.empty()) return std::nullopt;
  const PairMail mail = pair_mail_.front();
  pair_mail_.pop_front();
  return mail;
}

void ControlChannel::send_failure(std::uint64_t epoch, std::int64_t sequence, const Failure& failure) {
  send_to_all(failure_message(epoch, sequence, failure));
}

void ControlChannel::note_departure(const ControlMessage& control) {
  const auto [entry, is_new] = departures_.try_emplace(control.epoch, Departure{control.sequence, failure_of(control)});
  if (!is_new && control.sequence < entry->second.sequence) entry->second = {control.sequence, failure_of(control)};
}

void ControlChannel::send_to_all(const ControlMessage& control) {
  const Message message = encode(control);
  std::exception_ptr first_error;
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank == transport_.rank()) continue;
    try {
      transport_.post(rank, message);
    } catch (...) {  // one that is gone must not keep the others from hearing
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

const Failure* ControlChannel::failure(std::uint64_t epoch, std::int64_t sequence) const {
  const auto found = departures_.find(epoch);
  return found == departures_.end() || sequence < found->second.sequence ? nullptr : &found->second.failure;
}

bool ControlChannel::has_shown_itself(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return std::tie(peer.seen_epoch, peer.seen_sequence) >= std::tie(epoch, sequence);
}

bool ControlChannel::roll_was_called(std::uint64_t epoch, std::int64_t sequence) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const Peer& peer) { return peer.called_epoch == epoch && peer.called_sequence == sequence; });
}

std::string_view ControlChannel::whereabouts(int rank, std::uint64_t epoch, std::int64_t sequence) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return std::tie(peer.elsewhere_epoch, peer.elsewhere_sequence) == std::tie(epoch, sequence) ? peer.elsewhere
                                                                                              : std::string_view();
}

std::int64_t ControlChannel::last_sequence(int rank) const {
  return peers_[static_cast<std::size_t>(rank)].seen_sequence;
}

void ControlChannel::enter_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  departures_.erase(departures_.begin(), departures_.lower_bound(epoch));
}

}  // namespace lockstep::detail
