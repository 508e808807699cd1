// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory by which one rank of a node sends messages to another: slots with short messages, and with the places of
// long ones, and, if it is needed, a stream of chunks for messages in memory that the receiver cannot access. It is in
// the sender's memory. Message n uses slot n % slots: a slot is free for a new message when the message before has a
// final phase, and the sender has seen it.

#pragma once

#include "transport/shm/control_block.hpp"
#include "transport/shm/node_group.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

struct MessageRing {
  static constexpr std::size_t slots = 16;
  static constexpr std::size_t line_bytes = 96;       ///< a message up to this size is in the line of its slot
  static constexpr std::size_t payload_bytes = 4096;  ///< a message up to this size is in the payload of its slot
  static constexpr std::size_t descriptor_bytes = 512;
  static constexpr std::size_t chunks = 8;
  static constexpr std::size_t chunk_bytes = std::size_t{32} << 10;

  enum class Phase : std::uint8_t {
    none,
    offered,    ///< the sender has written the message, or its place
    read,       ///< the receiver is reading the message
    left,       ///< the sender failed while the receiver was reading; the receiver will set `withdrawn`
    taken,      ///< final: the receiver has the message
    refused,    ///< final: the receiver fails; a control message has the reason, if there was memory for it
    withdrawn,  ///< final: the sender fails; as above
  };
  [[nodiscard]] static constexpr bool is_final(Phase phase) noexcept {
    return phase == Phase::none || phase >= Phase::taken;
  }

  /// The state of a slot: the number of a message, and its phase.
  [[nodiscard]] static constexpr std::uint64_t state_of(std::int64_t number, Phase phase) noexcept {
    return (static_cast<std::uint64_t>(number) + 1) << 3 | static_cast<std::uint64_t>(phase);
  }
  [[nodiscard]] static constexpr std::int64_t number_of(std::uint64_t state) noexcept {
    return static_cast<std::int64_t>(state >> 3) - 1;
  }
  [[nodiscard]] static constexpr Phase phase_of(std::uint64_t state) noexcept { return static_cast<Phase>(state & 7); }

  /// Where the data of a message is.
  enum class Place : std::uint64_t { line, payload, tensor, chunks };

  /// The sender writes all members before it writes `state`. From `offered` on, both ranks change the state by
  /// compare-and-exchange, so that they agree on the end of the message.
  struct alignas(control_block_alignment) Slot {
    std::atomic<std::uint64_t> state{0};
    LooseWord<std::uint64_t> hash;    ///< hash of the descriptor
    LooseWord<std::uint64_t> bytes;   ///< size of the data, and its Place in the lowest two bits
    LooseWord<std::uint64_t> tensor;  ///< NodeAddress of the data in a tensor, or of the chunks
    LooseBytes<line_bytes / sizeof(std::uint64_t)> line;
  };
  static_assert(sizeof(Slot) == control_block_alignment);

  struct alignas(control_block_alignment) Counter {
    std::atomic<std::uint64_t> value{0};
  };
  /// A piece of a message. The pieces of all messages follow each other in one stream.
  struct alignas(control_block_alignment) Chunk {
    LooseWord<std::int64_t> number;  ///< number of the message
    LooseWord<std::uint64_t> bytes;
    alignas(control_block_alignment) std::array<std::byte, chunk_bytes> data;
  };
  using Chunks = std::array<Chunk, chunks>;
  struct alignas(control_block_alignment) Bytes {
    std::array<std::byte, descriptor_bytes> bytes;
  };

  std::array<Slot, slots> of_message;
  Counter filled;   ///< number of chunks that the sender has written
  Counter drained;  ///< number of chunks that the receiver has read
  Counter turns;    ///< number of turns in which the receiver has read a tensor
  std::array<Bytes, slots> descriptors;
  alignas(control_block_alignment) std::array<std::array<std::byte, payload_bytes>, slots> payloads;

  [[nodiscard]] Slot& slot(std::int64_t number) noexcept {
    return of_message[static_cast<std::size_t>(number) % slots];
  }
};

}  // namespace lockstep::detail
