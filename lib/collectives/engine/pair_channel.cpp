// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/pair_channel.hpp"

#include "base/log.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

namespace lockstep::detail {
namespace {

using Word = std::uint64_t;
constexpr Word valid = 1;
constexpr Word nothing = 0;

std::size_t byte_count(const HostItem& item) { return static_cast<std::size_t>(item.count()) * size_of(item.dtype); }

std::size_t message_size(const std::vector<HostItem>& items) {
  std::size_t bytes = sizeof(Word);
  for (const HostItem& item : items) bytes += byte_count(item);
  return bytes;
}

/// The descriptor for texts: both ranks use the descriptor of a send, so that the descriptors can be compared.
Descriptor described(const PairOperation& operation) {
  Descriptor descriptor = operation.descriptor();
  if (operation.role() == PairOperation::Role::receive) descriptor.kind = Call::recv(operation.peer()).kind;
  return descriptor;
}

std::string text_of_awaited(const PairOperation& operation, int rank) {
  if (operation.is_agreed()) return fmt::format("the transfer with rank {}", rank);
  return fmt::format("rank {} to call {}", rank, operation.role() == PairOperation::Role::send ? "recv" : "send");
}

}  // namespace

PairOperation::PairOperation(const Descriptor& descriptor, Role role, int peer, std::vector<HostItem> items,
                             std::unique_ptr<HostCopies> copies)
    : Operation(descriptor),
      role_(role),
      peer_(peer),
      copies_(std::move(copies)),
      items_(std::move(items)),
      bytes_(message_size(items_)) {}

void PairOperation::start(Transport& transport, Workspace& workspace) {
  buffer_ = workspace.take(bytes_);
  if (role_ == Role::send) {
    std::byte* next = message().data();
    std::memcpy(next, &valid, sizeof(Word));
    next += sizeof(Word);
    for (const HostItem& item : items_) {
      if (byte_count(item) != 0) std::memcpy(next, item.inputs.front(), byte_count(item));
      next += byte_count(item);
    }
    transfer_ = transport.send_aside(peer_, message());
  } else {
    transfer_ = transport.receive_aside(peer_, message());
  }
  is_under_way_ = true;
}

void PairOperation::start_void(Transport& transport, Workspace& workspace) {
  buffer_ = workspace.take(bytes_);
  std::memset(message().data(), 0, bytes_);
  std::memcpy(message().data(), &nothing, sizeof(Word));
  transfer_ = transport.send_aside(peer_, message());
  is_under_way_ = true;
}

bool PairOperation::advance(Transport& transport, Workspace& workspace) {
  if (is_unpacked_) return copies_ == nullptr || copies_->is_done();
  if (is_under_way_) {
    if (!transport.test(transfer_)) return false;
    is_under_way_ = false;
  }
  if (role_ == Role::receive) {
    Word word = nothing;
    std::memcpy(&word, message().data(), sizeof(Word));
    if (word != valid) return false;
    unpack();
    if (copies_ != nullptr) copies_->deliver();
  }
  is_unpacked_ = true;
  workspace.give_back(std::move(buffer_));
  return copies_ == nullptr || copies_->is_done();
}

void PairOperation::unpack() const {
  const std::byte* next = message().data() + sizeof(Word);
  for (const HostItem& item : items_) {
    if (byte_count(item) != 0) std::memcpy(item.outputs.front(), next, byte_count(item));
    next += byte_count(item);
  }
}

bool PairOperation::abandon(Transport& transport) noexcept {
  if (!std::exchange(is_under_way_, false)) return false;
  try {
    std::vector<Buffer> buffers(1);
    buffers.front() = std::move(buffer_);
    transport.abandon(std::span(&transfer_, 1), std::move(buffers));
  } catch (const std::bad_alloc&) {
    buffer_.leak();
  }
  return true;
}

PairChannel::PairChannel(Transport& transport, ControlChannel& control, Recorder& recorder, Options options)
    : transport_(transport), control_(control), recorder_(recorder), options_(std::move(options)) {}

void PairChannel::post(const std::shared_ptr<PairOperation>& operation) {
  Peer& peer = peers_[operation->peer()];
  if (!peer.is_busy) busy_.push_back(operation->peer());
  peer.is_busy = true;
  if (under_way_ == 0) clock_.restart();
  const bool is_send = operation->role() == PairOperation::Role::send;
  const std::int64_t number = is_send ? peer.sends_posted++ : peer.receives_posted++;
  auto& pending = is_send ? peer.sends : peer.receives;
  pending[number] = {operation, Clock::now()};
  recorder_.post_message(*operation, operation->peer(), is_send ? MessageEnd::send : MessageEnd::receive, number);
  ++under_way_;
  if (is_send) {
    ControlMessage offer;
    offer.kind = ControlKind::offer;
    offer.sequence = number;
    offer.summary.lowest = {transport_.rank(), operation->descriptor()};
    control_.send_to(operation->peer(), offer);
    if (const auto refused = peer.refused.extract(number)) finish(pending, number, &refused.mapped());
  } else if (const auto withdrawn = peer.withdrawals.extract(number)) {
    finish(pending, number, &withdrawn.mapped());
  }
}

void PairChannel::refuse(PairOperation::Role role, int rank, const Failure& failure) {
  Peer& peer = peers_[rank];
  if (role == PairOperation::Role::send) {
    answer(rank, ControlKind::withdrawal, peer.sends_posted++, &failure);
    return;
  }
  const std::int64_t number = peer.receives_posted++;
  if (peer.offers.erase(number) != 0) {
    answer(rank, ControlKind::refusal, number, &failure);
  } else if (peer.withdrawals.erase(number) == 0) {
    peer.refusals[number] = failure;
    answer(rank, ControlKind::refusal, number, &failure);  // this rank may not look for the offer for long
  }
}

void PairChannel::drive(Workspace& workspace) {
  while (const auto message = control_.take_pair_message()) take(message->source, message->message, workspace);
  std::erase_if(voids_, [&](const Pending& sent) {
    if (sent.operation->advance(transport_, workspace)) return true;
    return Clock::now() - sent.since > options_.fail_after && sent.operation->abandon(transport_);
  });
  if (under_way_ == 0) return;
  const Clock::duration pause = clock_.drive(options_.fail_after);
  for (const int rank : busy_) {
    Peer& peer = peers_[rank];
    for (PendingByNumber* const pending : {&peer.sends, &peer.receives}) {
      for (auto& entry : *pending) entry.second.since += pause;
    }
    // match offers that arrived before their receive was posted
    while (!peer.offers.empty() && peer.receives.count(peer.offers.begin()->first) != 0)
      meet(rank, peer.offers.begin()->first, workspace);
    for (PendingByNumber* const pending : {&peer.sends, &peer.receives}) {
      advance(*pending, workspace);
      watch(rank, *pending);
    }
  }
  std::erase_if(busy_, [this](int rank) {
    Peer& peer = peers_[rank];
    peer.is_busy = !peer.sends.empty() || !peer.receives.empty();
    return !peer.is_busy;
  });
}

void PairChannel::take(int source, const ControlMessage& message, Workspace& workspace) {
  Peer& peer = peers_[source];
  switch (message.kind) {
    case ControlKind::offer:
      if (const auto refusal = peer.refusals.extract(message.sequence)) {
        answer(source, ControlKind::refusal, message.sequence, &refusal.mapped());
        return;
      }
      peer.offers[message.sequence] = message.summary.lowest.descriptor;
      meet(source, message.sequence, workspace);
      return;
    case ControlKind::withdrawal: take_withdrawal(source, message); return;
    default: take_answer(source, message, workspace); return;
  }
}

void PairChannel::take_answer(int source, const ControlMessage& message, Workspace& workspace) {
  Peer& peer = peers_[source];
  const bool is_accepted = message.kind == ControlKind::acceptance;
  const auto found = peer.sends.find(message.sequence);
  if (found == peer.sends.end()) {
    const auto withdrawn = peer.withdrawn.extract(message.sequence);
    if (!is_accepted && message.sequence >= peer.sends_posted)
      peer.refused[message.sequence] = failure_of(message.failure);
    if (!withdrawn || !is_accepted) return;
    withdrawn.mapped()->start_void(transport_, workspace);
    voids_.push_back({withdrawn.mapped(), Clock::now()});
    return;
  }
  if (is_accepted) {
    begin(found->second, workspace);
    return;
  }
  const Failure failure = failure_of(message.failure);
  finish(peer.sends, message.sequence, &failure);
}

void PairChannel::take_withdrawal(int source, const ControlMessage& message) {
  Peer& peer = peers_[source];
  const Failure failure = failure_of(message.failure);
  // an offer that is still in the list has no answer yet
  if (peer.offers.erase(message.sequence) != 0) answer(source, ControlKind::refusal, message.sequence, &failure);
  if (message.sequence >= peer.receives_posted) {
    peer.withdrawals[message.sequence] = failure;
  } else if (peer.receives.count(message.sequence) != 0) {
    finish(peer.receives, message.sequence, &failure);
  }
}

/// If the receive of an offer is posted, compares the two, and accepts or refuses the offer.
void PairChannel::meet(int source, std::int64_t number, Workspace& workspace) {
  Peer& peer = peers_[source];
  const auto found = peer.receives.find(number);
  if (found == peer.receives.end()) return;
  const Descriptor offered = peer.offers.extract(number).mapped();
  const PairOperation& operation = *found->second.operation;
  if (offered.hash == operation.descriptor().hash) {
    begin(found->second, workspace);
    answer(source, ControlKind::acceptance, number, nullptr);
    return;
  }
  const Failure failure = failure_of_pair(
      Code::mismatch, operation, number,
      fmt::format("rank {} calls {}, but rank {} calls {}{}", source, describe(offered), transport_.rank(),
                  describe(described(operation)), difference_of_lists(offered, operation.descriptor())));
  answer(source, ControlKind::refusal, number, &failure);
  finish(peer.receives, number, &failure);
}

/// Begins the transfer of a message on which both ranks agree. The timeout starts again.
void PairChannel::begin(Pending& pending, Workspace& workspace) {
  pending.since = Clock::now();
  pending.late_since.reset();
  pending.operation->agree();
  recorder_.agree_message(*pending.operation);
  pending.operation->start(transport_, workspace);
}

void PairChannel::advance(PendingByNumber& pending, Workspace& workspace) {
  for (auto entry = pending.begin(); entry != pending.end();) {
    const auto [number, operation] = std::pair(entry->first, entry->second.operation);
    ++entry;
    if (operation->is_agreed() && operation->advance(transport_, workspace)) finish(pending, number, nullptr);
  }
}

void PairChannel::watch(int rank, PendingByNumber& pending) {
  const Clock::time_point now = clock_.now();
  for (auto entry = pending.begin(); entry != pending.end();) {
    const std::int64_t number = entry->first;
    Pending& one = entry->second;
    ++entry;
    if (now - one.since > options_.fail_after && !one.late_since) one.late_since = now;
    if (one.late_since && clock_.may_fail(*one.late_since)) {
      const Pending late = one;
      time_out(rank, number, late);
    } else if (!one.warned && now - one.since > options_.warn_after) {
      one.warned = true;
      log_warning("{}: this rank has waited {:.1f} s in {} for {}", options_.name,
                  std::chrono::duration<double>(now - one.since).count(), describe(described(*one.operation)),
                  text_of_awaited(*one.operation, rank));
    }
  }
}

void PairChannel::time_out(int rank, std::int64_t number, const Pending& late) {
  Peer& peer = peers_[rank];
  const bool is_send = late.operation->role() == PairOperation::Role::send;
  const double seconds = std::chrono::duration<double>(options_.fail_after).count();
  const Failure failure = failure_of_pair(
      Code::deadline_exceeded, *late.operation, number,
      fmt::format("timed out after {} s waiting for {}", seconds, text_of_awaited(*late.operation, rank)));
  if (!late.operation->is_agreed() && is_send) {
    answer(rank, ControlKind::withdrawal, number, &failure);
    peer.withdrawn[number] = late.operation;
  } else if (!late.operation->is_agreed()) {
    peer.refusals[number] = failure;
  }
  finish(is_send ? peer.sends : peer.receives, number, &failure);
}

void PairChannel::finish(PendingByNumber& pending, std::int64_t number, const Failure* failure) {
  const auto operation = pending.extract(number).mapped().operation;
  --under_way_;
  if (failure != nullptr) {
    if (operation->is_agreed()) static_cast<void>(operation->abandon(transport_));
  }
  auto error = failure != nullptr ? std::make_shared<const Error>(failure->error()) : nullptr;
  recorder_.finish_message(*operation, number, error.get());
  operation->finish(std::move(error));
}

void PairChannel::fail_gone(int rank, bool has_left, const std::string& text) {
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return;
  for (PendingByNumber* const pending : {&found->second.sends, &found->second.receives}) {
    for (auto entry = pending->begin(); entry != pending->end();) {
      const auto [number, operation] = std::pair(entry->first, entry->second.operation);
      ++entry;
      if (has_left && operation->is_agreed()) continue;
      const Failure failure = failure_of_pair(Code::unavailable, *operation, number, text);
      finish(*pending, number, &failure);
    }
  }
}

void PairChannel::fail_all(const Failure& failure) {
  for (auto& [rank, peer] : peers_) {
    while (!peer.sends.empty()) finish(peer.sends, peer.sends.begin()->first, &failure);
    while (!peer.receives.empty()) finish(peer.receives, peer.receives.begin()->first, &failure);
  }
}

void PairChannel::answer(int target, ControlKind kind, std::int64_t number, const Failure* failure) {
  ControlMessage message = failure != nullptr ? abort_message(0, {number, *failure}) : ControlMessage();
  message.kind = kind;
  message.sequence = number;
  control_.send_to(target, message);
}

/// "recv #2 of world from rank 0 to rank 1"; `kind` replaces the first word if it is not empty.
std::string PairChannel::text_of(const PairOperation& operation, std::int64_t number, std::string_view kind) const {
  const bool is_send = operation.role() == PairOperation::Role::send;
  if (kind.empty()) kind = is_send ? "send" : "recv";
  return fmt::format("{} #{} of {} from rank {} to rank {}", kind, number, options_.name,
                     is_send ? transport_.rank() : operation.peer(), is_send ? operation.peer() : transport_.rank());
}

std::optional<WaitElsewhere> PairChannel::wait_in(const Operation& operation, Clock::time_point limit) const {
  for (const int rank : busy_) {
    const Peer& peer = peers_.at(rank);
    for (const PendingByNumber* const pending : {&peer.sends, &peer.receives}) {
      for (const auto& [number, one] : *pending) {
        if (one.operation.get() != &operation || one.since >= limit) continue;
        return WaitElsewhere{
            fmt::format("{}, {}", text_of(*one.operation, number), describe(described(*one.operation))), one.warned};
      }
    }
  }
  return std::nullopt;
}

Failure PairChannel::failure_of_pair(Code code, const PairOperation& operation, std::int64_t number,
                                     const std::string& why) const {
  // the text of a mismatch describes both calls
  const std::string call = code == Code::mismatch ? "" : ", " + describe(described(operation));
  return {code,
          fmt::format("{}{}: {}", text_of(operation, number, code == Code::mismatch ? "message" : ""), call, why),
          {operation.peer(), -1, operation_name(operation.descriptor()), number}};
}

}  // namespace lockstep::detail
