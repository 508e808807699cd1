// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/node_messages.hpp"

#include "base/mark.hpp"
#include "base/pause.hpp"
#include "kernels/copy.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace lockstep::detail {
namespace {

using Phase = MessageRing::Phase;

static_assert(sizeof(Descriptor) <= MessageRing::descriptor_bytes);

/// Bytes of a tensor that a rank copies at a time. The copy takes some milliseconds, even on a busy processor.
constexpr std::size_t turn_bytes = std::size_t{4} << 20;

std::size_t index_of(std::int64_t number) noexcept { return static_cast<std::size_t>(number) % MessageRing::slots; }

SlotState state_in(const MessageRing::Slot& slot) noexcept {
  const std::uint64_t state = slot.state.load(std::memory_order_acquire);
  return {MessageRing::number_of(state), MessageRing::phase_of(state)};
}

bool change(MessageRing::Slot& slot, std::int64_t number, Phase from, Phase to) noexcept {
  std::uint64_t expected = MessageRing::state_of(number, from);
  return slot.state.compare_exchange_strong(expected, MessageRing::state_of(number, to), std::memory_order_acq_rel);
}

/// As NodeGroup::at_flag, while this rank reads memory of the sender. Threads cannot be stopped alone: the sender waits
/// until this one has finished reading.
void at_flag_in_reading(const NodeGroup& group) {
  if (group.can_unshare()) group.at_flag();
}

}  // namespace

SentMessages::SentMessages(NodeGroup& group) : group_(group) {
  std::byte* const memory = group_.keep(sizeof(MessageRing));
  if (memory == nullptr) return;
  ring_ = new (memory) MessageRing;
  address_ = group_.address_of(memory, sizeof(MessageRing));
}

SlotState SentMessages::holder(std::int64_t number) const {
  group_.at_flag();
  return state_in(ring_->slot(number));
}

bool SentMessages::reserve_chunks() {
  if (chunks_ != nullptr) return true;
  std::byte* const memory = group_.keep(sizeof(MessageRing::Chunks));
  if (memory != nullptr) chunks_ = new (memory) MessageRing::Chunks;
  return chunks_ != nullptr;
}

bool SentMessages::offer(std::int64_t number, const PairOperation& operation) {
  MessageRing::Slot& slot = ring_->slot(number);
  const std::size_t bytes = operation.bytes();
  NodeAddress address = NodeAddress::none;
  Place place = bytes <= MessageRing::line_bytes ? Place::line : Place::payload;
  if (bytes > MessageRing::payload_bytes) {
    const void* const tensor = operation.only_input();
    if (tensor != nullptr && !group_.is_hidden(tensor)) address = group_.address_of(tensor, bytes);
    place = address != NodeAddress::none ? Place::tensor : Place::chunks;
  }
  switch (place) {
    case Place::line: {
      std::array<std::byte, MessageRing::line_bytes> line;
      const auto data = std::span(line).first(bytes);
      operation.pack(0, data);
      slot.line.put(data);
      break;
    }
    case Place::payload: operation.pack(0, std::span(ring_->payloads[index_of(number)]).first(bytes)); break;
    case Place::tensor: break;
    case Place::chunks:
      if (!reserve_chunks()) return false;
      address = group_.address_of(chunks_, sizeof(MessageRing::Chunks));
      filling_.push_back({number, 0});
      break;
  }
  const Descriptor& descriptor = operation.descriptor();
  slot.hash = descriptor.hash;
  slot.bytes = static_cast<std::uint64_t>(bytes) << 2 | static_cast<std::uint64_t>(place);
  slot.tensor = static_cast<std::uint64_t>(address);
  // a program that repeats its calls has the same descriptor in the slot already
  const std::size_t index = index_of(number);
  if (written_[index] != descriptor.hash || written_places_[index] != operation.place()) {
    std::memcpy(ring_->descriptors[index].bytes.data(), &descriptor, sizeof(descriptor));
    written_[index] = descriptor.hash;
    written_places_[index] = operation.place();
  }
  group_.at_flag();
  slot.state.store(MessageRing::state_of(number, Phase::offered), std::memory_order_release);
  group_.wake();
  return true;
}

Phase SentMessages::phase(std::int64_t number) const {
  group_.at_flag();
  return MessageRing::phase_of(ring_->slot(number).state.load(std::memory_order_acquire));
}

bool SentMessages::fill(std::int64_t number, const PairOperation& operation) {
  if (filling_.empty() || filling_.front().number != number) return false;
  Filling& filling = filling_.front();
  group_.at_flag();
  const std::uint64_t drained = ring_->drained.value.load(std::memory_order_acquire);
  const std::uint64_t before = filled_;
  while (filled_ - drained < MessageRing::chunks && filling.filled < operation.bytes()) {
    MessageRing::Chunk& chunk = (*chunks_)[filled_ % MessageRing::chunks];
    const std::size_t count = std::min(operation.bytes() - filling.filled, MessageRing::chunk_bytes);
    operation.pack(filling.filled, std::span(chunk.data).first(count));
    chunk.number = number;
    chunk.bytes = count;
    filling.filled += count;
    group_.at_flag();
    ring_->filled.value.store(++filled_, std::memory_order_release);
  }
  if (filling.filled == operation.bytes()) filling_.pop_front();
  return filled_ != before;
}

bool SentMessages::can_fill(std::int64_t number) const {
  if (filling_.empty() || filling_.front().number != number) return false;
  group_.at_flag();
  return filled_ - ring_->drained.value.load(std::memory_order_acquire) < MessageRing::chunks;
}

bool SentMessages::has_moved() {
  group_.at_flag();
  const std::uint64_t turns = ring_->turns.value.load(std::memory_order_relaxed);
  return std::exchange(seen_turns_, turns) != turns;
}

bool SentMessages::withdraw(std::int64_t number) noexcept {
  std::erase_if(filling_, [number](const Filling& each) { return each.number == number; });
  MessageRing::Slot& slot = ring_->slot(number);
  for (std::uint32_t pauses = 1;; ++pauses) {
    group_.at_flag();
    if (change(slot, number, Phase::offered, Phase::withdrawn)) return true;
    if (group_.can_unshare() && change(slot, number, Phase::read, Phase::left)) {
      reached(Mark::message_left);
      return true;
    }
    const Phase now = phase(number);
    if (now == Phase::taken) return false;
    if (now != Phase::offered && now != Phase::read) return true;
    yield_core(pauses);
  }
}

ReceivedMessages::ReceivedMessages(NodeGroup& group, int member, NodeAddress address)
    : group_(group),
      member_(member),
      ring_(std::launder(reinterpret_cast<MessageRing*>(group.resolve(member, address, sizeof(MessageRing))))) {}

SlotState ReceivedMessages::slot(std::size_t index) const {
  group_.at_flag();
  return state_in(ring_->of_message[index]);
}

bool ReceivedMessages::is_offered(std::int64_t number) const {
  const SlotState now = slot(index_of(number));
  return now.number == number && !MessageRing::is_final(now.phase);
}

std::uint64_t ReceivedMessages::hash(std::int64_t number) const { return ring_->slot(number).hash.get(); }

/// From now on, the sender does not write to the slot again before `end_reading` or `refuse`.
bool ReceivedMessages::begin_reading(std::int64_t number) noexcept {
  MessageRing::Slot& slot = ring_->slot(number);
  group_.at_flag();
  if (change(slot, number, Phase::offered, Phase::read)) return true;
  if (slot.state.load(std::memory_order_acquire) == MessageRing::state_of(number, Phase::read)) return true;
  give_back(number);
  return false;
}

/// The sender, which has withdrawn message `number` while this rank read it, gets its slot back.
void ReceivedMessages::give_back(std::int64_t number) noexcept {
  if (change(ring_->slot(number), number, Phase::left, Phase::withdrawn)) group_.wake();
}

ReceivedMessages::Outcome ReceivedMessages::taken() const noexcept {
  group_.wake();
  return Outcome::taken;
}

ReceivedMessages::Outcome ReceivedMessages::end_reading(std::int64_t number) noexcept {
  MessageRing::Slot& slot = ring_->slot(number);
  at_flag_in_reading(group_);
  if (change(slot, number, Phase::read, Phase::taken)) return taken();
  give_back(number);
  return Outcome::gone;
}

std::optional<Descriptor> ReceivedMessages::descriptor(std::int64_t number) {
  if (!begin_reading(number)) return std::nullopt;
  Descriptor descriptor;
  std::memcpy(&descriptor, ring_->descriptors[index_of(number)].bytes.data(), sizeof(descriptor));
  MessageRing::Slot& slot = ring_->slot(number);
  at_flag_in_reading(group_);
  if (change(slot, number, Phase::read, Phase::offered)) return descriptor;
  give_back(number);
  return std::nullopt;
}

ReceivedMessages::Outcome ReceivedMessages::take(std::int64_t number, const PairOperation& operation,
                                                 std::size_t& received) {
  MessageRing::Slot& slot = ring_->slot(number);
  const std::size_t bytes = operation.bytes();
  const std::uint64_t size_and_place = slot.bytes.get();
  const auto address = static_cast<NodeAddress>(slot.tensor.get());
  std::atomic_thread_fence(std::memory_order_acquire);
  // if the sender has withdrawn the message, the slot may have another one already
  if (!is_offered(number) || size_and_place >> 2 != bytes) return Outcome::gone;
  switch (static_cast<Place>(size_and_place & 3)) {
    case Place::line: {
      std::array<std::byte, MessageRing::line_bytes> line;
      const auto data = std::span(line).first(bytes);
      slot.line.get(data);
      group_.at_flag();
      if (!change(slot, number, Phase::offered, Phase::taken)) return Outcome::gone;
      operation.unpack(0, data);
      return taken();
    }
    case Place::payload:
      if (!begin_reading(number)) return Outcome::gone;
      operation.unpack(0, std::span(ring_->payloads[index_of(number)]).first(bytes));
      return end_reading(number);
    case Place::tensor: {
      if (!begin_reading(number)) return Outcome::gone;
      // threads cannot be stopped alone: the sender waits for the end of this call
      const std::size_t turn = group_.can_unshare() ? std::min(turn_bytes, group_.most_turn_bytes()) : bytes;
      const std::size_t count = std::min(bytes - received, turn);
      const std::byte* const data = group_.resolve(member_, address, bytes);
      group_.at_turn();
      operation.unpack(received, std::span(data + received, count));
      received += count;
      at_flag_in_reading(group_);
      ring_->turns.value.store(++turns_, std::memory_order_relaxed);
      return received < bytes ? Outcome::moved : end_reading(number);
    }
    case Place::chunks: break;
  }
  if (chunks_ == nullptr)
    chunks_ = std::launder(
        reinterpret_cast<const MessageRing::Chunks*>(group_.resolve(member_, address, sizeof(MessageRing::Chunks))));
  const std::size_t before = received;
  while (received < bytes && next_in_chunks() == number) {
    const MessageRing::Chunk& chunk = (*chunks_)[drained_ % MessageRing::chunks];
    const std::size_t count = std::min<std::size_t>(chunk.bytes.get(), bytes - received);
    operation.unpack(received, std::span(chunk.data).first(count));
    received += count;
    drop_chunk();
  }
  if (received < bytes) {
    if (!is_offered(number)) return Outcome::gone;
    return received > before ? Outcome::moved : Outcome::waits;
  }
  group_.at_flag();
  return change(slot, number, Phase::offered, Phase::taken) ? taken() : Outcome::gone;
}

void ReceivedMessages::refuse(std::int64_t number) noexcept {
  MessageRing::Slot& slot = ring_->slot(number);
  group_.at_flag();
  if (change(slot, number, Phase::offered, Phase::refused)) return;
  if (change(slot, number, Phase::read, Phase::refused)) return;
  give_back(number);
}

std::int64_t ReceivedMessages::next_in_chunks() const {
  group_.at_flag();
  if (chunks_ == nullptr || ring_->filled.value.load(std::memory_order_acquire) == drained_) return -1;
  return (*chunks_)[drained_ % MessageRing::chunks].number.get();
}

void ReceivedMessages::drop_chunk() {
  group_.at_flag();
  ring_->drained.value.store(++drained_, std::memory_order_release);
  group_.wake();
}

}  // namespace lockstep::detail
