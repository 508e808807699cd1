// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The two ends of the messages from one rank of a node to another, through shared memory (transport/shm/message_ring).
// The sender writes a message, or its place, and its descriptor. The receiver compares descriptors, copies the data,
// and says so. So a message costs two transfers of a cache line, and no data is ever written to tensors of another size
// or type. A long message is copied once if it is one tensor in the arena; otherwise it goes through chunks, which both
// ranks copy at the same time.

#pragma once

#include "collectives/engine/pair_operation.hpp"
#include "transport/shm/message_ring.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace lockstep::detail {

struct SlotState {
  std::int64_t number;  ///< number of the latest message in the slot; -1: none
  MessageRing::Phase phase;
};

/// The sender's end. Not thread-safe.
class SentMessages {
 public:
  using Phase = MessageRing::Phase;

  /// To another member of `group`, which must outlive this object. `address` is none if the arena is full.
  explicit SentMessages(NodeGroup& group);
  /// The place of the messages, which the sender tells the receiver.
  [[nodiscard]] NodeAddress address() const noexcept { return address_; }

  /// The slot for message `number`. There is room if its phase is final, and this rank has seen the end of the message.
  [[nodiscard]] SlotState holder(std::int64_t number) const;
  /// Offers message `number`, for which there is room. Returns false, and offers nothing, if there is no shared memory
  /// for it. If an allocation fails, throws std::bad_alloc and offers nothing.
  [[nodiscard]] bool offer(std::int64_t number, const PairOperation& operation);
  /// The phase of message `number`, which has been offered and not ended yet.
  [[nodiscard]] Phase phase(std::int64_t number) const;
  /// Copies more of message `number` to the chunks, if it goes through them and is the first of these. Returns whether
  /// anything was copied.
  bool fill(std::int64_t number, const PairOperation& operation);
  /// Whether `fill` would copy anything.
  [[nodiscard]] bool can_fill(std::int64_t number) const;
  /// The state of the slot of message `number`, which any thread may read.
  [[nodiscard]] const std::atomic<std::uint64_t>& state(std::int64_t number) const noexcept {
    return ring_->slot(number).state;
  }
  /// Whether the receiver has read more of a tensor since the last call.
  [[nodiscard]] bool has_moved();
  /// Whether some of message `number` has not been copied to the chunks yet.
  [[nodiscard]] bool is_filling(std::int64_t number) const noexcept {
    return std::any_of(filling_.begin(), filling_.end(),
                       [number](const Filling& each) { return each.number == number; });
  }
  /// Ends message `number` for this rank. Returns false if the receiver already has it. If the receiver is another
  /// process and is reading, it sees the withdrawal afterwards. If it is a thread of this process, this call waits
  /// until it has finished reading.
  [[nodiscard]] bool withdraw(std::int64_t number) noexcept;

 private:
  using Place = MessageRing::Place;

  /// A message that goes through the chunks.
  struct Filling {
    std::int64_t number;
    std::size_t filled;
  };

  [[nodiscard]] bool reserve_chunks();

  NodeGroup& group_;
  NodeAddress address_ = NodeAddress::none;
  MessageRing* ring_ = nullptr;
  MessageRing::Chunks* chunks_ = nullptr;
  std::uint64_t filled_ = 0;      // number of chunks
  std::uint64_t seen_turns_ = 0;  // of the receiver
  std::deque<Filling> filling_;
  std::array<std::uint64_t, MessageRing::slots> written_{};  // hashes of the descriptors in the slots
  std::array<std::uintptr_t, MessageRing::slots> written_places_{};
};

/// The receiver's end. Not thread-safe.
class ReceivedMessages {
 public:
  /// From `member` of `group`, which must outlive this object, at `address`.
  ReceivedMessages(NodeGroup& group, int member, NodeAddress address);

  [[nodiscard]] SlotState slot(std::size_t index) const;
  /// Whether message `number` has been offered, and has not ended.
  [[nodiscard]] bool is_offered(std::int64_t number) const;
  [[nodiscard]] std::uint64_t hash(std::int64_t number) const;
  /// As SentMessages::state.
  [[nodiscard]] const std::atomic<std::uint64_t>& state(std::int64_t number) const noexcept {
    return ring_->slot(number).state;
  }
  /// The descriptor of message `number`, which is offered. Empty if the sender has failed.
  [[nodiscard]] std::optional<Descriptor> descriptor(std::int64_t number);
  /// What has happened to the message of a receive.
  enum class Outcome : std::uint8_t {
    waits,  ///< for chunks
    moved,  ///< some of the data, and more will follow
    taken,  ///< all data is in the tensors
    gone,   ///< the sender has failed; its control message has the reason
  };
  /// Copies data of message `number`, which is offered, to the tensors; `received` is the number of bytes that earlier
  /// calls have copied, and is increased.
  [[nodiscard]] Outcome take(std::int64_t number, const PairOperation& operation, std::size_t& received);
  /// This rank fails in the receive of message `number`, which is offered. The caller tells the sender the reason.
  void refuse(std::int64_t number) noexcept;
  /// The message of the next chunk; -1 if there is no chunk.
  [[nodiscard]] std::int64_t next_in_chunks() const;
  /// Drops the next chunk, of a message that has failed.
  void drop_chunk();

 private:
  using Phase = MessageRing::Phase;
  using Place = MessageRing::Place;

  [[nodiscard]] bool begin_reading(std::int64_t number) noexcept;
  [[nodiscard]] Outcome end_reading(std::int64_t number) noexcept;
  [[nodiscard]] Outcome taken() const noexcept;
  void give_back(std::int64_t number) noexcept;

  NodeGroup& group_;
  int member_;
  MessageRing* ring_;
  const MessageRing::Chunks* chunks_ = nullptr;
  std::uint64_t drained_ = 0;  // number of chunks
  std::uint64_t turns_ = 0;
};

}  // namespace lockstep::detail
