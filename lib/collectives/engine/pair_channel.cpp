// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/pair_channel.hpp"

#include "base/log.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <string_view>
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

SharedError error_of(const Failure& failure) { return std::make_shared<const Error>(failure.error()); }

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
  if (buffer_.size() < bytes_) buffer_ = workspace.take(bytes_);  // else there was no memory for the transfer
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
  if (buffer_.size() < bytes_) buffer_ = workspace.take(bytes_);
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
    : transport_(transport),
      control_(control),
      recorder_(recorder),
      options_(std::move(options)),
      out_of_memory_(error_of_this_rank(Code::unavailable, "out of memory")) {}

void PairChannel::post(const std::shared_ptr<PairOperation>& operation) {
  const int rank = operation->peer();
  const bool is_send = operation->role() == PairOperation::Role::send;
  Peer& peer = peers_[rank];
  std::int64_t& next = is_send ? peer.sends_posted : peer.receives_posted;
  auto& pending = is_send ? peer.sends : peer.receives;
  if (!peer.is_busy) busy_.reserve(busy_.size() + 1);
  const auto entry = pending.insert_or_assign(next, Pending{operation, Clock::now()}).first;
  if (is_send) {
    try {
      ControlMessage offer;
      offer.kind = ControlKind::offer;
      offer.sequence = next;
      offer.summary.lowest = {transport_.rank(), operation->descriptor()};
      control_.send_to(rank, offer);
    } catch (...) {
      pending.erase(entry);
      throw;
    }
  }
  if (!peer.is_busy) busy_.push_back(rank);
  peer.is_busy = true;
  if (under_way_ == 0) clock_.restart();
  ++under_way_;
  recorder_.post_message(*operation, rank, is_send ? MessageEnd::send : MessageEnd::receive, next++);
}

std::int64_t PairChannel::skip(PairOperation::Role role, int rank) {
  Peer& peer = peers_[rank];
  return role == PairOperation::Role::send ? peer.sends_posted++ : peer.receives_posted++;
}

void PairChannel::refuse(PairOperation::Role role, int rank, std::int64_t number, const Failure& failure) {
  Peer& peer = peers_[rank];
  if (role == PairOperation::Role::send) {
    answer(rank, ControlKind::withdrawal, number, &failure);
    peer.refused.erase(number);
  } else if (peer.offers.count(number) != 0) {
    answer(rank, ControlKind::refusal, number, &failure);
    peer.offers.erase(number);
  } else if (peer.withdrawals.erase(number) == 0) {
    peer.refusals[number] = failure;
    answer(rank, ControlKind::refusal, number, &failure);  // this rank may not look for the offer for long
  }
}

void PairChannel::drive(Workspace& workspace) {
  for (; const ControlChannel::PairMessage* const message = control_.pair_message(); control_.drop_pair_message())
    take(message->source, message->message, workspace);
  std::erase_if(voids_, [&](const Pending& sent) {
    if (sent.operation->advance(transport_, workspace)) return true;
    return Clock::now() - sent.since > options_.fail_after && sent.operation->abandon(transport_);
  });
  if (under_way_ != 0) {
    const Clock::duration pause = clock_.drive(options_.fail_after);
    LateMessages late;
    for (const int rank : busy_) {
      Peer& peer = peers_[rank];
      for (PendingByNumber* const pending : {&peer.sends, &peer.receives}) {
        for (auto& entry : *pending) entry.second.since += pause;
      }
      end_failed(peer);
      // offers that arrived before their receive was posted
      while (!peer.offers.empty() && peer.offers.begin()->first < peer.receives_posted)
        match(rank, peer.offers.begin()->first, workspace);
      for (PendingByNumber* const pending : {&peer.sends, &peer.receives}) {
        advance(*pending, workspace);
        watch(rank, *pending, late);
      }
    }
    if (late.count != 0) warn(late);
    std::erase_if(busy_, [this](int rank) {
      Peer& peer = peers_[rank];
      peer.is_busy = !peer.sends.empty() || !peer.receives.empty();
      return !peer.is_busy;
    });
  }
  lacks_memory_since_.reset();
}

bool PairChannel::lacks_memory_for_long() noexcept {
  const Clock::time_point now = Clock::now();
  if (!lacks_memory_since_) lacks_memory_since_ = now;
  return now - *lacks_memory_since_ > options_.fail_after;
}

/// Handles a message. If an allocation fails, it throws, and the message is handled again later: what has been done for
/// it by then is not done twice, or changes nothing.
void PairChannel::take(int source, const ControlMessage& message, Workspace& workspace) {
  Peer& peer = peers_[source];
  switch (message.kind) {
    case ControlKind::offer:
      if (const auto refusal = peer.refusals.find(message.sequence); refusal != peer.refusals.end()) {
        answer(source, ControlKind::refusal, message.sequence, &refusal->second);
        peer.refusals.erase(refusal);
        peer.offers.erase(message.sequence);
        return;
      }
      peer.offers.insert_or_assign(message.sequence, message.summary.lowest.descriptor);
      if (message.sequence < peer.receives_posted) match(source, message.sequence, workspace);
      return;
    case ControlKind::withdrawal: take_withdrawal(source, message); return;
    default: take_answer(source, message, workspace); return;
  }
}

void PairChannel::take_answer(int source, const ControlMessage& message, Workspace& workspace) {
  Peer& peer = peers_[source];
  const std::int64_t number = message.sequence;
  const bool is_accepted = message.kind == ControlKind::acceptance;
  const auto found = peer.sends.find(number);
  if (found != peer.sends.end()) {
    if (!is_accepted) return finish(peer.sends, number, error_of(failure_of(message.failure)));
    try {
      return begin(found->second, workspace);
    } catch (const std::bad_alloc&) {
      withdraw(source, number, failure_of_shortage(*found->second.operation, number));
    }
  }
  if (!is_accepted && number >= peer.sends_posted) peer.refused.insert_or_assign(number, failure_of(message.failure));
  const auto withdrawn = peer.withdrawn.find(number);
  if (withdrawn == peer.withdrawn.end()) return;
  if (is_accepted) {
    voids_.reserve(voids_.size() + 1);
    withdrawn->second->start_void(transport_, workspace);
    voids_.push_back({withdrawn->second, Clock::now()});
  }
  peer.withdrawn.erase(withdrawn);
}

void PairChannel::take_withdrawal(int source, const ControlMessage& message) {
  Peer& peer = peers_[source];
  const std::int64_t number = message.sequence;
  const Failure failure = failure_of(message.failure);
  if (peer.offers.count(number) != 0) {  // an offer that is still in the list has no answer yet
    answer(source, ControlKind::refusal, number, &failure);
    peer.offers.erase(number);
  }
  if (number >= peer.receives_posted) {
    peer.withdrawals.insert_or_assign(number, failure);
  } else if (peer.receives.count(number) != 0) {
    finish(peer.receives, number, error_of(failure));
  }
}

/// Ends the send `number`, to whose receiver the reason is told. If the receiver accepts it, or has done so already, it
/// gets a transfer without valid data.
void PairChannel::withdraw(int target, std::int64_t number, const Failure& failure) {
  Peer& peer = peers_[target];
  SharedError error = error_of(failure);
  peer.withdrawn.insert_or_assign(number, peer.sends.at(number).operation);
  answer(target, ControlKind::withdrawal, number, &failure);
  finish(peer.sends, number, std::move(error));
}

/// Ends the sends and receives of which the other rank has told, before they were posted, that they fail.
void PairChannel::end_failed(Peer& peer) {
  const auto end = [this](std::map<std::int64_t, Failure>& failures, PendingByNumber& pending) {
    for (auto each = failures.begin(); each != failures.end();) {
      const auto one = each++;
      if (pending.count(one->first) == 0) continue;
      finish(pending, one->first, error_of(one->second));
      failures.erase(one);
    }
  };
  end(peer.refused, peer.sends);
  end(peer.withdrawals, peer.receives);
}

/// Answers an offer whose receive this rank has posted, or has skipped.
void PairChannel::match(int source, std::int64_t number, Workspace& workspace) {
  Peer& peer = peers_[source];
  if (peer.receives.count(number) != 0) return meet(source, number, workspace);
  const Failure failure{Code::unavailable,
                        fmt::format("rank {} failed in its recv from rank {}", transport_.rank(), source),
                        {transport_.rank(), -1, "recv", number}};
  answer(source, ControlKind::refusal, number, &failure);
  peer.offers.erase(number);
}

/// Compares an offer with its receive, and accepts or refuses it.
void PairChannel::meet(int source, std::int64_t number, Workspace& workspace) {
  Peer& peer = peers_[source];
  const auto found = peer.receives.find(number);
  const Descriptor& offered = peer.offers.at(number);
  const PairOperation& operation = *found->second.operation;
  std::optional<Failure> failure;
  if (offered.hash == operation.descriptor().hash) {
    try {
      if (!operation.is_agreed()) begin(found->second, workspace);  // else there was no memory for the answer
    } catch (const std::bad_alloc&) {
      failure = failure_of_shortage(operation, number);
    }
  } else {
    failure = failure_of_pair(
        Code::mismatch, operation, number,
        fmt::format("rank {} calls {}, but rank {} calls {}{}", source, describe(offered), transport_.rank(),
                    describe(described(operation)), difference_of_lists(offered, operation.descriptor())));
  }
  SharedError error = failure ? error_of(*failure) : nullptr;
  answer(source, failure ? ControlKind::refusal : ControlKind::acceptance, number, failure ? &*failure : nullptr);
  peer.offers.erase(number);
  if (error != nullptr) finish(peer.receives, number, std::move(error));
}

/// Begins the transfer of a message on which both ranks agree. The timeout starts again.
void PairChannel::begin(Pending& pending, Workspace& workspace) {
  pending.operation->start(transport_, workspace);  // first, since there may be no memory for it
  pending.since = Clock::now();
  pending.late_since.reset();
  pending.operation->agree();
  recorder_.agree_message(*pending.operation);
}

void PairChannel::advance(PendingByNumber& pending, Workspace& workspace) {
  for (auto entry = pending.begin(); entry != pending.end();) {
    const auto [number, operation] = std::pair(entry->first, entry->second.operation);
    ++entry;
    if (operation->is_agreed() && operation->advance(transport_, workspace)) finish(pending, number, nullptr);
  }
}

void PairChannel::watch(int rank, PendingByNumber& pending, LateMessages& late) {
  const Clock::time_point now = clock_.now();
  const bool may_warn = !warned_at_ || now - *warned_at_ >= options_.warn_after;
  for (auto entry = pending.begin(); entry != pending.end();) {
    const std::int64_t number = entry->first;
    Pending& one = entry->second;
    ++entry;
    if (now - one.since > options_.fail_after && !one.late_since) one.late_since = now;
    if (one.late_since && clock_.may_fail(*one.late_since)) {
      const Pending failed = one;
      time_out(rank, number, failed);
    } else if (may_warn && !one.warned && now - one.since > options_.warn_after) {
      one.warned = true;
      if (late.count++ == 0 || one.since < late.since) {
        late.first = one.operation;
        late.since = one.since;
      }
    }
  }
}

/// At most one line for each period of warn_after: a program may post a hundred thousand messages at almost the same
/// time.
void PairChannel::warn(const LateMessages& late) {
  warned_at_ = clock_.now();
  const std::string first = describe(described(*late.first));
  const std::string awaited = text_of_awaited(*late.first, late.first->peer());
  const double waited = std::chrono::duration<double>(clock_.now() - late.since).count();
  if (late.count == 1) {
    log_warning("{}: this rank has waited {:.1f} s in {} for {}", options_.name, waited, first, awaited);
  } else {
    log_warning(
        "{}: {} sends and receives of this rank wait for other ranks; it has waited {:.1f} s in the first, {}, for {}",
        options_.name, late.count, waited, first, awaited);
  }
}

void PairChannel::time_out(int rank, std::int64_t number, const Pending& late) {
  Peer& peer = peers_[rank];
  const bool is_send = late.operation->role() == PairOperation::Role::send;
  const double seconds = std::chrono::duration<double>(options_.fail_after).count();
  const Failure failure = failure_of_pair(
      Code::deadline_exceeded, *late.operation, number,
      fmt::format("timed out after {} s waiting for {}", seconds, text_of_awaited(*late.operation, rank)));
  if (!late.operation->is_agreed() && is_send) return withdraw(rank, number, failure);
  SharedError error = error_of(failure);
  if (!late.operation->is_agreed()) peer.refusals.insert_or_assign(number, failure);
  finish(is_send ? peer.sends : peer.receives, number, std::move(error));
}

/// `error` is made before anything of the message is changed, so that a shortage of memory changes nothing.
void PairChannel::finish(PendingByNumber& pending, std::int64_t number, SharedError error) noexcept {
  const auto operation = pending.extract(number).mapped().operation;
  --under_way_;
  if (error != nullptr && operation->is_agreed()) static_cast<void>(operation->abandon(transport_));
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
      finish(*pending, number, error_of(failure_of_pair(Code::unavailable, *operation, number, text)));
    }
  }
}

void PairChannel::fail_all(Code code, std::string_view text) noexcept {
  SharedError error = out_of_memory_;
  try {
    error = error_of_this_rank(code, text);
  } catch (const std::bad_alloc&) {}
  for (auto& [rank, peer] : peers_) {
    while (!peer.sends.empty()) finish(peer.sends, peer.sends.begin()->first, error);
    while (!peer.receives.empty()) finish(peer.receives, peer.receives.begin()->first, error);
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
            fmt::format("{}, {}", text_of(*one.operation, number), describe(described(*one.operation))),
            clock_.now() - one.since > options_.warn_after};
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

SharedError PairChannel::error_of_this_rank(Code code, std::string_view text) const {
  const int rank = transport_.rank();
  return std::make_shared<const Error>(code, fmt::format("{}: rank {} failed: {}", options_.name, rank, text),
                                       ErrorContext{.rank = rank});
}

Failure PairChannel::failure_of_shortage(const PairOperation& operation, std::int64_t number) const {
  Failure failure = failure_of_pair(Code::unavailable, operation, number,
                                    fmt::format("rank {} failed: out of memory", transport_.rank()));
  failure.context.rank = transport_.rank();
  return failure;
}

}  // namespace lockstep::detail
