// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/pair_channel.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/mark.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <string_view>
#include <utility>

namespace lockstep::detail {
namespace {

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

PairChannel::PairChannel(Transport& transport, ControlChannel& control, Recorder& recorder, Options options)
    : transport_(transport),
      control_(control),
      recorder_(recorder),
      options_(std::move(options)),
      out_of_memory_(error_of_this_rank(Code::unavailable, "out of memory")) {}

/// The member of this rank's node that `rank` is; -1 if they share no memory.
int PairChannel::member_of(int rank) const {
  if (transport_.sharing_group() == nullptr) return -1;
  const std::span<const int> leaders = transport_.node_leaders();
  const auto leader_of = [&](int each) { return leaders[static_cast<std::size_t>(each)]; };
  if (leader_of(rank) != leader_of(transport_.rank())) return -1;
  int member = 0;
  for (int each = leader_of(rank); each < rank; ++each) member += leader_of(each) == leader_of(rank) ? 1 : 0;
  return member;
}

// ---- what callers do

void PairChannel::post(std::shared_ptr<PairOperation> posted) {
  PairOperation& operation = *posted;
  const int rank = operation.peer();
  const bool is_send = operation.role() == Role::send;
  Peer& peer = peers_[rank];
  std::int64_t& next = is_send ? peer.sends_posted : peer.receives_posted;
  PendingByNumber& pending = peer.pending(operation.role());
  if (!peer.is_busy) busy_.reserve(busy_.size() + 1);
  operation.restart(next);
  pending.add(next, Pending{std::move(posted)});
  if (is_send && peer.next_offer == next) {
    try {
      if (offer(rank, peer, next)) ++peer.next_offer;
    } catch (...) {
      static_cast<void>(pending.take(next));
      throw;
    }
  }
  if (!peer.is_busy) busy_.push_back(rank);
  peer.is_busy = true;
  if (under_way_ == 0) was_idle_ = true;
  ++under_way_;
  recorder_.post_message(operation, rank, is_send ? MessageEnd::send : MessageEnd::receive, next++);
}

AwaitedMessage PairChannel::awaited(const PairOperation& operation) {
  const auto found = peers_.find(operation.peer());
  if (found == peers_.end()) return {};
  Peer& peer = found->second;
  const std::int64_t number = operation.number();
  if (operation.role() == Role::receive) {
    const Pending* const pending = peer.receives.find(number);
    if (peer.received == nullptr || pending == nullptr || pending->path != Path::unknown) return {};
    return {&peer.received->state(number), number, Role::receive};
  }
  if (!is_by_memory(peer, number) || peer.sent->is_filling(number)) return {};
  return {&peer.sent->state(number), number, Role::send};
}

bool PairChannel::advance_at_once(const PairOperation& operation) {
  const auto found = peers_.find(operation.peer());
  if (found != peers_.end() && !operation.is_done())
    advance_in_memory(operation.peer(), found->second, operation.role(), operation.number());
  return operation.is_done();
}

std::int64_t PairChannel::skip(Role role, int rank) {
  Peer& peer = peers_[rank];
  if (role == Role::receive) {
    note_untold(peer, peer.receives_posted);
    return peer.receives_posted++;
  }
  if (peer.next_offer == peer.sends_posted) ++peer.next_offer;
  return peer.sends_posted++;
}

void PairChannel::refuse(Role role, int rank, std::int64_t number, const Failure& failure) {
  Peer& peer = peers_[rank];
  if (role == Role::send) {
    answer(rank, ControlKind::withdrawal, number, &failure);
    peer.refused.erase(number);
  } else if (peer.offers.count(number) != 0) {
    answer(rank, ControlKind::refusal, number, &failure);
    peer.offers.erase(number);
  } else if (peer.withdrawals.erase(number) == 0) {
    if (peer.received == nullptr) peer.refusals[number] = failure;  // the offer may be a message
    answer(rank, ControlKind::refusal, number, &failure);           // this rank may not look for the offer for long
  }
  if (role == Role::receive && peer.untold_from == number) peer.untold_from = -1;
}

bool PairChannel::waits_for_other_ranks() const {
  constexpr std::size_t most = 64;
  if (under_way_ > most || !voids_.empty() || has_untold_ || lacks_memory_since_) return false;
  for (const auto& [rank, peer] : peers_) {
    for (std::int64_t number = peer.receives.begin(); number < peer.receives.end(); ++number) {
      const Pending* const one = peer.receives.find(number);
      if (one != nullptr && (one->path != Path::unknown || one->fails_since)) return false;
    }
    for (std::int64_t number = peer.sends.begin(); number < peer.sends.end(); ++number) {
      const Pending* const one = peer.sends.find(number);
      if (one == nullptr) continue;
      if (one->operation->is_agreed() || one->fails_since) return false;
      if (one->path == Path::memory &&
          (peer.sent->can_fill(number) || peer.sent->phase(number) != MessageRing::Phase::offered))
        return false;
    }
  }
  return true;
}

/// Whether this rank waits for the end of send `number`, which it has offered in the memory of the node.
bool PairChannel::is_by_memory(const Peer& peer, std::int64_t number) {
  const Pending* const pending = peer.sends.find(number);
  return pending != nullptr && pending->path == Path::memory;
}

/// Offers the send `number`, unless it has failed already. Returns false if the memory of the node has no room for it
/// yet.
bool PairChannel::offer(int rank, Peer& peer, std::int64_t number) {
  if (peer.refused.count(number) != 0) return true;  // it ends in the next `drive`
  if (peer.sent == nullptr && member_of(rank) >= 0)
    peer.sent = std::make_unique<SentMessages>(*transport_.sharing_group());
  if (peer.has_told_ring) {
    SlotState holder = peer.sent->holder(number);
    if (is_by_memory(peer, holder.number)) {
      advance_in_memory(rank, peer, Role::send, holder.number);
      holder = peer.sent->holder(number);
    }
    if (!MessageRing::is_final(holder.phase) || is_by_memory(peer, holder.number)) {
      reached(Mark::message_has_no_room);
      return false;
    }
    Pending& pending = *peer.sends.find(number);
    if (peer.sent->offer(number, *pending.operation)) {
      pending.path = Path::memory;
      peer.sent->fill(number, *pending.operation);
      return true;
    }
  }
  Pending& pending = *peer.sends.find(number);
  ControlMessage offer;
  offer.kind = ControlKind::offer;
  offer.sequence = number;
  offer.summary.lowest = {transport_.rank(), pending.operation->descriptor()};
  if (peer.sent != nullptr) offer.ring = static_cast<std::uint64_t>(peer.sent->address());
  const std::size_t bytes = bytes_with_offer(pending);
  offer.has_data =
      pending.operation->bytes() <= most_offered_bytes && peer.unanswered_bytes + bytes <= most_unanswered_bytes;
  send_offer(rank, offer, *pending.operation);
  pending.path = offer.has_data ? Path::with_offer : Path::messages;
  if (offer.has_data) peer.unanswered_bytes += bytes;
  peer.has_told_ring = offer.ring != 0;
  return true;
}

/// Time before the deadline at which a send whose data is with its offer is withdrawn.
std::chrono::milliseconds PairChannel::time_of_answer() const noexcept {
  return std::min(time_of_reason, options_.fail_after / 10);
}

/// Size of the offer of `pending` with its data.
std::size_t PairChannel::bytes_with_offer(const Pending& pending) noexcept {
  return sizeof(ControlMessage) + pending.operation->bytes();
}

void PairChannel::send_offer(int rank, const ControlMessage& offer, const PairOperation& operation) {
  if (!offer.has_data) return control_.send_to(rank, offer);
  const std::span<const std::byte> head = bytes_of(offer);
  offer_.resize(head.size() + operation.bytes());
  std::copy(head.begin(), head.end(), offer_.begin());
  operation.pack(0, std::span(offer_).subspan(head.size()));
  control_.send_offer(rank, offer_);
}

/// Offers the sends for which there was no room before.
void PairChannel::offer_next(int rank, Peer& peer) {
  for (; peer.next_offer < peer.sends_posted; ++peer.next_offer) {
    if (peer.sends.find(peer.next_offer) != nullptr && !offer(rank, peer, peer.next_offer)) return;
  }
}

void PairChannel::drive(Workspace& workspace) {
  for (; ControlChannel::PairMessage* const message = control_.pair_message(); control_.drop_pair_message())
    take(*message, workspace);
  advance_voids();
  if (has_untold_) tell_failed_receives();
  if (under_way_ != 0) {
    if (std::exchange(was_idle_, false)) {
      clock_.restart();
      watched_ = {};
    }
    const Clock::duration pause = clock_.drive(options_.fail_after);
    LateMessages late;
    const auto least_time = std::min({options_.warn_after, options_.fail_after, std::chrono::milliseconds(1000)});
    const bool is_time = clock_.now() - watched_ >= least_time / 100;
    if (is_time) watched_ = clock_.now();
    if (pause != Clock::duration(0)) {
      for (const int rank : busy_) put_off(peers_[rank], pause);
    }
    for (const int rank : busy_) {
      Peer& peer = peers_[rank];
      end_failed(peer);
      offer_next(rank, peer);
      // offers that arrived before their receive was posted
      while (!peer.offers.empty() && peer.offers.begin()->first < peer.receives_posted)
        match(rank, peer.offers.begin()->first, workspace);
      for (const Role role : {Role::send, Role::receive}) {
        advance(rank, peer, role, workspace);
        if (is_time) watch(rank, peer, role, late);
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

void PairChannel::note_untold(Peer& peer, std::int64_t number) noexcept {
  if (peer.untold_from < 0) peer.untold_from = number;
  has_untold_ = true;
}

/// Tells the other ranks which receives have failed, where there was no memory for it before.
void PairChannel::tell_failed_receives() {
  for (auto& [rank, peer] : peers_) {
    if (peer.untold_from < 0) continue;
    for (std::int64_t number = peer.untold_from; number < peer.receives_posted; ++number) {
      if (peer.receives.find(number) != nullptr) continue;
      const Failure failure = failure_of_other_end(Role::receive, transport_.rank(), rank, number);
      answer(rank, ControlKind::refusal, number, &failure);
    }
    peer.untold_from = -1;
  }
  has_untold_ = false;
}

/// `pause` does not count as a wait.
void PairChannel::put_off(Peer& peer, Clock::duration pause) noexcept {
  for (const Role role : {Role::send, Role::receive}) {
    PendingByNumber& pending = peer.pending(role);
    for (std::int64_t number = pending.begin(); number < pending.end(); ++number) {
      Pending* const one = pending.find(number);
      if (one == nullptr) continue;
      if (one->since) *one->since += pause;
      if (one->fails_since) *one->fails_since += pause;
    }
  }
}

void PairChannel::advance_voids() {
  std::erase_if(voids_, [&](VoidTransfer& sent) {
    if (transport_.test(sent.transfer)) return true;
    if (Clock::now() - sent.since <= options_.fail_after) return false;
    PairOperation::leave(transport_, sent.transfer, std::move(sent.buffer));
    return true;
  });
}

bool PairChannel::lacks_memory_for_long() noexcept {
  const Clock::time_point now = Clock::now();
  if (!lacks_memory_since_) lacks_memory_since_ = now;
  return now - *lacks_memory_since_ > options_.fail_after;
}

// ---- messages of the other rank

/// Handles a message. If an allocation fails, it throws, and the message is handled again later: what has been done for
/// it by then is not done twice, or changes nothing.
void PairChannel::take(ControlChannel::PairMessage& message, Workspace& workspace) {
  switch (message.message.kind) {
    case ControlKind::offer: take_offer(message, workspace); return;
    case ControlKind::withdrawal: take_withdrawal(message.source, message.message, workspace); return;
    default: take_answer(message.source, message.message, workspace); return;
  }
}

void PairChannel::take_offer(ControlChannel::PairMessage& received, Workspace& workspace) {
  const int source = received.source;
  const ControlMessage& message = received.message;
  Peer& peer = peers_[source];
  if (const int member = member_of(source); member >= 0 && message.ring != 0 && peer.received == nullptr) {
    peer.received =
        std::make_unique<ReceivedMessages>(*transport_.sharing_group(), member, static_cast<NodeAddress>(message.ring));
    // the next offers come by memory, and what fails has been told to the other rank
    peer.refusals.erase(peer.refusals.upper_bound(message.sequence), peer.refusals.end());
  }
  peer.refusals.erase(peer.refusals.begin(), peer.refusals.lower_bound(message.sequence));  // offers come in order
  if (const auto refusal = peer.refusals.find(message.sequence); refusal != peer.refusals.end()) {
    answer(source, ControlKind::refusal, message.sequence, &refusal->second);
    peer.refusals.erase(refusal);
    peer.offers.erase(message.sequence);
    return;
  }
  const auto offer =
      peer.offers.try_emplace(message.sequence, Offer{message.summary.lowest.descriptor, message.has_data}).first;
  if (!received.data.empty()) offer->second.data = std::move(received.data);
  const Pending* const receive = peer.receives.find(message.sequence);
  const bool has_data_of_offer = receive != nullptr && receive->operation->is_agreed();
  // a withdrawal that has come, too, is answered
  if (message.has_data && !has_data_of_offer && control_.has_withdrawal(source, message.sequence)) return;
  if (message.sequence < peer.receives_posted) match(source, message.sequence, workspace);
}

void PairChannel::take_answer(int source, const ControlMessage& message, Workspace& workspace) {
  Peer& peer = peers_[source];
  const std::int64_t number = message.sequence;
  const bool is_accepted = message.kind == ControlKind::acceptance;
  if (Pending* const found = peer.sends.find(number); found != nullptr) {
    if (has_moved(*found, workspace)) return finish(peer, Role::send, number, nullptr);
    if (!is_accepted) {
      SharedError error = found->withdrawn_for;
      return finish(peer, Role::send, number, error != nullptr ? error : error_of(failure_of(message.failure)));
    }
    if (found->path == Path::with_offer) {
      agree(*found);
      return finish(peer, Role::send, number, nullptr);
    }
    if (found->operation->is_agreed()) return;  // it had been accepted already
    try {
      return begin(*found, workspace);
    } catch (const std::bad_alloc&) {
      withdraw(source, number, failure_of_shortage(*found->operation, number));
    }
  }
  if (!is_accepted && number >= peer.sends_posted) peer.refused.insert_or_assign(number, failure_of(message.failure));
  const auto withdrawn = peer.withdrawn.find(number);
  if (withdrawn == peer.withdrawn.end()) return;
  if (is_accepted) {
    voids_.reserve(voids_.size() + 1);
    Buffer buffer;
    const Transfer transfer = PairOperation::start_void(transport_, workspace, source, withdrawn->second, buffer);
    voids_.push_back({std::move(buffer), transfer, Clock::now()});
  }
  peer.withdrawn.erase(withdrawn);
}

void PairChannel::take_withdrawal(int source, const ControlMessage& message, Workspace& workspace) {
  Peer& peer = peers_[source];
  const std::int64_t number = message.sequence;
  const Failure failure = failure_of(message.failure);
  Pending* const found = peer.receives.find(number);
  // the data has come: it is answered, and delivered, elsewhere
  if (found != nullptr && (found->path == Path::with_offer || found->operation->has_begun_delivery())) return;
  if (peer.offers.count(number) != 0) {  // an offer that is still in the list has no answer yet
    answer(source, ControlKind::refusal, number, &failure);
    peer.offers.erase(number);
  }
  if (number >= peer.receives_posted) {
    peer.withdrawals.insert_or_assign(number, failure);
  } else if (found != nullptr && !found->is_taken) {
    SharedError error = has_moved(*found, workspace) ? nullptr : error_of(failure);
    finish(peer, Role::receive, number, std::move(error));
  }
}

/// Whether all data of a message of the transport has left or come, so that the failure of the other end is too late.
bool PairChannel::has_moved(const Pending& pending, Workspace& workspace) {
  return pending.path == Path::messages && pending.operation->is_agreed() &&
         pending.operation->advance(transport_, workspace);
}

/// Ends the send `number`, to whose receiver the reason is told. If the receiver accepts it, or has done so already, it
/// gets a transfer without valid data. If the receiver has the message already, the send has succeeded.
void PairChannel::withdraw(int target, std::int64_t number, const Failure& failure) {
  Peer& peer = peers_[target];
  SharedError error = error_of(failure);
  Pending& pending = *peer.sends.find(number);
  if (pending.path == Path::with_offer) {
    answer(target, ControlKind::withdrawal, number, &failure);
    pending.fails_since = Clock::now();
    pending.withdrawn_for = std::move(error);
    return;
  }
  if (pending.path == Path::memory) {
    if (!peer.sent->withdraw(number)) return finish(peer, Role::send, number, nullptr);
  } else if (pending.path == Path::messages && !transport_.has_transfers_by_number()) {
    peer.withdrawn.insert_or_assign(number, pending.operation->bytes());
  }
  answer(target, ControlKind::withdrawal, number, &failure);
  finish(peer, Role::send, number, std::move(error));
}

/// Ends the sends and receives of which the other rank has told, before they were posted, that they fail.
void PairChannel::end_failed(Peer& peer) {
  const auto end = [&](std::map<std::int64_t, Failure>& failures, Role role) {
    for (auto each = failures.begin(); each != failures.end();) {
      const auto one = each++;
      if (peer.pending(role).find(one->first) == nullptr) continue;
      finish(peer, role, one->first, error_of(one->second));
      failures.erase(one);
    }
  };
  end(peer.refused, Role::send);
  end(peer.withdrawals, Role::receive);
}

/// Answers an offer whose receive this rank has posted, or has skipped.
void PairChannel::match(int source, std::int64_t number, Workspace& workspace) {
  Peer& peer = peers_[source];
  if (peer.receives.find(number) != nullptr) return meet(source, number, workspace);
  const Failure failure = failure_of_other_end(Role::receive, transport_.rank(), source, number);
  answer(source, ControlKind::refusal, number, &failure);
  peer.offers.erase(number);
}

/// Compares an offer with its receive, and accepts or refuses it.
void PairChannel::meet(int source, std::int64_t number, Workspace& workspace) {
  Peer& peer = peers_[source];
  Pending& found = *peer.receives.find(number);
  const Offer& offer = peer.offers.at(number);
  const PairOperation& operation = *found.operation;
  std::optional<Failure> failure;
  if (offer.descriptor.hash == operation.descriptor().hash) {
    try {
      if (!operation.is_agreed()) {  // else the answer could not be allocated before
        offer.has_data ? receive_from_offer(found, offer) : begin(found, workspace);
      }
    } catch (const std::bad_alloc&) {
      failure = failure_of_shortage(operation, number);
    }
  } else {
    failure = mismatch(source, number, offer.descriptor, operation);
  }
  SharedError error = failure ? error_of(*failure) : nullptr;
  if (found.path == Path::with_offer && !operation.has_begun_delivery()) found.operation->deliver();
  answer(source, failure ? ControlKind::refusal : ControlKind::acceptance, number, failure ? &*failure : nullptr);
  peer.offers.erase(number);
  if (error != nullptr) return finish(peer, Role::receive, number, std::move(error));
  found.is_taken = found.path == Path::with_offer;
  if (found.is_taken) end_delivered(peer, number);
}

void PairChannel::receive_from_offer(Pending& pending, const Offer& offer) {
  LOCKSTEP_CHECK(offer.data.size() == pending.operation->bytes());
  pending.operation->unpack(0, offer.data);
  pending.path = Path::with_offer;
  agree(pending);
}

/// Compares an offer in the memory of the node with its receive. Returns whether they match.
bool PairChannel::meet_in_memory(int source, Peer& peer, std::int64_t number) {
  Pending& found = *peer.receives.find(number);
  const PairOperation& operation = *found.operation;
  if (peer.received->hash(number) == operation.descriptor().hash) {
    found.path = Path::memory;
    agree_at_once(found);
    return true;
  }
  const std::optional<Descriptor> offered = peer.received->descriptor(number);
  if (!offered) return false;  // a withdrawal has the reason
  const Failure failure = mismatch(source, number, *offered, operation);
  SharedError error = error_of(failure);
  answer(source, ControlKind::refusal, number, &failure);
  finish(peer, Role::receive, number, std::move(error));
  return false;
}

Failure PairChannel::mismatch(int source, std::int64_t number, const Descriptor& offered,
                              const PairOperation& operation) const {
  return failure_of_pair(
      Code::mismatch, operation, number,
      fmt::format("rank {} calls {}, but rank {} calls {}{}", source, describe(offered), transport_.rank(),
                  describe(described(operation)), difference_of_lists(offered, operation.descriptor())));
}

// ---- progress

/// Begins the transfer of a message on which both ranks agree.
void PairChannel::begin(Pending& pending, Workspace& workspace) {
  pending.operation->start(transport_, workspace);  // first, since there may be no memory for it
  pending.path = Path::messages;
  agree(pending);
}

/// The timeout starts again.
void PairChannel::restart(Pending& pending) noexcept {
  pending.since.reset();
  pending.late_since.reset();
}

void PairChannel::agree(Pending& pending) {
  restart(pending);
  pending.operation->agree();
  recorder_.agree_message(*pending.operation);
}

/// As `agree`, for a message in shared memory, most of which are complete at once.
void PairChannel::agree_at_once(Pending& pending) {
  restart(pending);
  pending.operation->agree();
  recorder_.agree_at_once(*pending.operation);
}

/// Messages match in order. So this function looks at the oldest operations only, and stops after MessageRing::slots of
/// them on which the other rank has not agreed.
void PairChannel::advance(int rank, Peer& peer, Role role, Workspace& workspace) {
  if (role == Role::receive && peer.received != nullptr) {
    drop_chunks(peer);
    for (std::size_t index = 0; index < MessageRing::slots; ++index) look_at_slot(rank, peer, index);
  }
  PendingByNumber& pending = peer.pending(role);
  std::size_t waiting = 0;
  for (std::int64_t number = pending.begin(); number < pending.end() && waiting < MessageRing::slots; ++number) {
    const Pending* const one = pending.find(number);
    if (one == nullptr) continue;
    const bool is_moving = one->operation->is_agreed();
    if (!is_moving) ++waiting;
    if (one->path == Path::memory && role == Role::send && peer.sent->phase(number) == MessageRing::Phase::refused) {
      await_reason(rank, peer, role, number);
    } else if (one->path == Path::memory) {
      advance_in_memory(rank, peer, role, number);
    } else if (one->path == Path::with_offer) {
      if (role == Role::receive) end_delivered(peer, number);
    } else if (const auto operation = one->operation; is_moving && operation->advance(transport_, workspace)) {
      finish(peer, role, number, nullptr);
    }
  }
}

/// Takes what the other rank has offered in a slot of its messages. If the receive has failed, the other rank may not
/// know it.
void PairChannel::look_at_slot(int rank, Peer& peer, std::size_t index) {
  const SlotState slot = peer.received->slot(index);
  if (slot.number < 0 || slot.number >= peer.receives_posted) return;
  const Pending* const one = peer.receives.find(slot.number);
  if (one != nullptr && slot.phase == MessageRing::Phase::withdrawn) {
    await_reason(rank, peer, Role::receive, slot.number);
  } else if (one != nullptr && !MessageRing::is_final(slot.phase)) {
    advance_in_memory(rank, peer, Role::receive, slot.number);
  } else if (one == nullptr && slot.phase == MessageRing::Phase::offered) {
    const Failure failure = failure_of_other_end(Role::receive, transport_.rank(), rank, slot.number);
    answer(rank, ControlKind::refusal, slot.number, &failure);
    peer.received->refuse(slot.number);
  }
}

/// The other rank has failed in message `number`. Its control message says why, if it had the memory to send one.
/// Called only after control messages have been received.
void PairChannel::await_reason(int rank, Peer& peer, Role role, std::int64_t number) {
  Pending& one = *peer.pending(role).find(number);
  if (!one.fails_since) one.fails_since = Clock::now();
  if (Clock::now() - *one.fails_since <= time_of_reason) return;
  const Role other = role == Role::send ? Role::receive : Role::send;
  finish(peer, role, number, error_of(failure_of_other_end(other, rank, transport_.rank(), number)));
}

/// Ends a receive whose data has come with the offer.
void PairChannel::end_delivered(Peer& peer, std::int64_t number) {
  const Pending& one = *peer.receives.find(number);
  if (one.is_taken && one.operation->is_delivered()) finish(peer, Role::receive, number, nullptr);
}

void PairChannel::advance_in_memory(int rank, Peer& peer, Role role, std::int64_t number) {
  Pending& one = *peer.pending(role).find(number);
  if (one.path == Path::messages || one.path == Path::with_offer) return;
  if (role == Role::send) {
    if (one.path != Path::memory) return;
    const MessageRing::Phase phase = peer.sent->phase(number);
    if (phase == MessageRing::Phase::taken) {
      if (!one.operation->is_agreed()) agree_at_once(one);
      finish(peer, role, number, nullptr);
      return;
    }
    if (phase == MessageRing::Phase::read && !one.operation->is_agreed()) agree(one);
    if (peer.sent->fill(number, *one.operation) || (phase == MessageRing::Phase::read && peer.sent->has_moved())) {
      restart(one);
    }
    return;
  }
  if (!one.operation->is_agreed()) {
    if (peer.received == nullptr || !peer.received->is_offered(number)) return;
    if (!meet_in_memory(rank, peer, number)) return;
  }
  using Outcome = ReceivedMessages::Outcome;
  if (!one.is_taken) {
    const Outcome outcome = peer.received->take(number, *one.operation, one.received);
    if (outcome == Outcome::moved) restart(one);
    if (outcome != Outcome::taken) return recorder_.agree_message(*one.operation);
    one.is_taken = true;
  }
  if (!one.operation->has_begun_delivery()) one.operation->deliver();
  if (!one.operation->is_delivered()) return recorder_.agree_message(*one.operation);
  finish(peer, role, number, nullptr);
}

/// Drops what has come of messages that have failed here.
void PairChannel::drop_chunks(Peer& peer) {
  for (;;) {
    const std::int64_t number = peer.received->next_in_chunks();
    if (number < 0 || number >= peer.receives_posted || peer.receives.find(number) != nullptr) return;
    peer.received->drop_chunk();
  }
}

void PairChannel::watch(int rank, Peer& peer, Role role, LateMessages& late) {
  const Clock::time_point now = clock_.now();
  const bool may_warn = !warned_at_ || now - *warned_at_ >= options_.warn_after;
  PendingByNumber& pending = peer.pending(role);
  for (std::int64_t number = pending.begin(); number < pending.end(); ++number) {
    Pending* const one = pending.find(number);
    if (one == nullptr) continue;
    if (!one->since) one->since = now;
    if (one->withdrawn_for != nullptr) {
      const Clock::time_point end = *one->fails_since + time_of_answer();
      if (now > end && clock_.may_fail(end)) finish(peer, role, number, one->withdrawn_for);
      continue;
    }
    const Clock::duration waited = now - *one->since;
    const bool may_be_answered = one->path == Path::with_offer && role == Role::send;
    const auto limit = options_.fail_after - (may_be_answered ? time_of_answer() : std::chrono::milliseconds(0));
    if (waited > limit && !one->late_since) one->late_since = now;
    if (one->late_since && clock_.may_fail(*one->late_since)) {
      const auto operation = one->operation;
      time_out(rank, number, operation);
    } else if (may_warn && !one->warned && waited > options_.warn_after) {
      one->warned = true;
      if (late.count++ == 0 || *one->since < late.since) {
        late.first = one->operation;
        late.since = *one->since;
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

void PairChannel::time_out(int rank, std::int64_t number, const std::shared_ptr<PairOperation>& operation) {
  Peer& peer = peers_[rank];
  const bool is_send = operation->role() == Role::send;
  const double seconds = std::chrono::duration<double>(options_.fail_after).count();
  const Failure failure =
      failure_of_pair(Code::deadline_exceeded, *operation, number,
                      fmt::format("timed out after {} s waiting for {}", seconds, text_of_awaited(*operation, rank)));
  const Path path = peer.pending(operation->role()).find(number)->path;
  const bool can_end_alone = path == Path::memory || (path == Path::messages && transport_.has_transfers_by_number());
  const bool is_open = !operation->is_agreed() || can_end_alone;
  if (is_open && is_send) return withdraw(rank, number, failure);
  SharedError error = error_of(failure);
  const bool is_taken = is_open && peer.receives.find(number)->is_taken;
  if (is_open && !is_taken) refuse(Role::receive, rank, number, failure);
  finish(peer, operation->role(), number, std::move(error));
}

/// `error` is made before anything of the message is changed, so that a shortage of memory changes nothing. If the
/// receiver has the message already, the send has succeeded.
void PairChannel::finish(Peer& peer, Role role, std::int64_t number, SharedError error) noexcept {
  const Pending pending = peer.pending(role).take(number);
  PairOperation& operation = *pending.operation;
  --under_way_;
  if (role == Role::send && pending.path == Path::with_offer) peer.unanswered_bytes -= bytes_with_offer(pending);
  if (error != nullptr) {
    if (role == Role::receive && peer.received != nullptr) peer.received->refuse(number);
    if (role == Role::send && pending.path == Path::memory && !peer.sent->withdraw(number)) error = nullptr;
    if (pending.path == Path::messages && operation.is_agreed()) static_cast<void>(operation.abandon(transport_));
  }
  recorder_.finish_message(operation, number, error.get());
  operation.finish(std::move(error));
}

void PairChannel::fail_gone(int rank, bool has_left, const std::string& text) {
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  for (const Role role : {Role::send, Role::receive}) {
    PendingByNumber& pending = peer.pending(role);
    for (std::int64_t number = pending.begin(); number < pending.end(); ++number) {
      const Pending* const one = pending.find(number);
      if (one == nullptr || one->is_taken) continue;
      if (has_left && one->path == Path::messages && one->operation->is_agreed()) continue;
      const auto operation = one->operation;
      finish(peer, role, number, error_of(failure_of_pair(Code::unavailable, *operation, number, text)));
    }
  }
}

void PairChannel::fail_all(Code code, std::string_view text) noexcept {
  SharedError error = out_of_memory_;
  try {
    error = error_of_this_rank(code, text);
  } catch (const std::bad_alloc&) {}
  for (auto& [rank, peer] : peers_) {
    if (!peer.receives.empty()) note_untold(peer, peer.receives.begin());
    for (const Role role : {Role::send, Role::receive}) {
      while (!peer.pending(role).empty()) finish(peer, role, peer.pending(role).begin(), error);
    }
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
  const auto& message = dynamic_cast<const PairOperation&>(operation);
  const auto found = peers_.find(message.peer());
  if (found == peers_.end()) return std::nullopt;
  const Peer& peer = found->second;
  const Pending* const one = (message.role() == Role::send ? peer.sends : peer.receives).find(message.number());
  if (one == nullptr || !one->since || *one->since >= limit) return std::nullopt;
  return WaitElsewhere{fmt::format("{}, {}", text_of(message, message.number()), describe(described(message))),
                       clock_.now() - *one->since > options_.warn_after};
}

Failure PairChannel::failure_of_pair(Code code, const PairOperation& operation, std::int64_t number,
                                     const std::string& why) const {
  // the text of a mismatch describes both calls
  const std::string call = code == Code::mismatch ? "" : ", " + describe(described(operation));
  return {code,
          fmt::format("{}{}: {}", text_of(operation, number, code == Code::mismatch ? "message" : ""), call, why),
          {operation.peer(), -1, operation_name(operation.descriptor()), number}};
}

/// The other end of a message, on rank `rank`, has failed for an unknown reason.
Failure PairChannel::failure_of_other_end(Role role, int rank, int other, std::int64_t number) {
  const bool is_send = role == Role::send;
  return {Code::unavailable,
          fmt::format("rank {} failed in its {} rank {}", rank, is_send ? "send to" : "recv from", other),
          {rank, -1, is_send ? "send" : "recv", number}};
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
