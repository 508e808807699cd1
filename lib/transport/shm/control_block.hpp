// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What one rank shows to the others of its node. Every word has one writer. Lines that are read at the same moment lie
// together, lines with different readers 128 bytes apart, since processors fetch lines in pairs.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "control blocks are shared between processes");

inline constexpr std::size_t control_block_alignment = 128;

/// Names one operation of a communicator: later ones are greater, in a later epoch all the more.
[[nodiscard]] constexpr std::uint64_t operation_tag(std::uint64_t epoch, std::int64_t sequence) noexcept {
  return epoch << 40 | (static_cast<std::uint64_t>(sequence) + 1);
}
[[nodiscard]] constexpr std::uint64_t epoch_of_tag(std::uint64_t tag) noexcept { return tag >> 40; }
[[nodiscard]] constexpr std::int64_t sequence_of_tag(std::uint64_t tag) noexcept {
  return static_cast<std::int64_t>(tag & ((std::uint64_t{1} << 40) - 1)) - 1;
}

/// A word whose order the words beside it say. Who was stopped for long may still read it while its writer, who has
/// given the operation up, writes it for a later one.
template <class T>
class LooseWord {
 public:
  LooseWord& operator=(T value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  [[nodiscard]] T get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{0};
};

/// What a rank brings to one operation. All but `abandoned` is written before the tag, and stays until everybody has
/// left the operation or given it up.
struct alignas(control_block_alignment) Arrival {
  std::atomic<std::uint64_t> tag{0};
  std::atomic<std::uint64_t> abandoned{0};  ///< the last tag in this place that the rank has given up
  LooseWord<std::uint64_t> hash;            ///< of the descriptor
  LooseWord<std::uint64_t> clock;           ///< the rank's clock at its arrival
  LooseWord<std::uint64_t> table;           ///< NodeAddress of the table of its buffers
  LooseWord<std::uint64_t> table_id;        ///< another number for other contents
  LooseWord<std::uint64_t> staging;         ///< NodeAddress of its staging memory
  LooseWord<std::uint32_t> flags;
};

struct ControlBlock {
  /// Neighbouring operations have different slots, and so have operations of neighbouring epochs: who is slow may still
  /// read what he needs of the one before.
  static constexpr std::size_t slots = 4;
  static constexpr std::size_t payload_bytes = 16 * 1024;
  static constexpr std::size_t descriptor_bytes = 256;
  static constexpr std::size_t verdict_bytes = 576;

  [[nodiscard]] static constexpr std::size_t slot_of(std::uint64_t tag) noexcept {
    return (epoch_of_tag(tag) & 1) << 1 | (tag & 1);
  }

  struct alignas(control_block_alignment) Word {
    std::atomic<std::uint64_t> value{0};
  };
  struct alignas(control_block_alignment) Payload {
    std::array<std::byte, payload_bytes> bytes;
  };
  struct alignas(control_block_alignment) DescriptorBytes {
    std::array<std::byte, descriptor_bytes> bytes;
  };

  /// What the ranks of all nodes call, told by the first rank of this one.
  struct alignas(control_block_alignment) Verdict {
    std::atomic<std::uint64_t> tag{0};
    std::uint32_t agree = 0;
    std::array<std::byte, verdict_bytes> summary;  ///< where they do not agree
  };

  std::array<Arrival, slots> arrivals;
  std::array<Verdict, slots> verdicts;
  Word clock;  ///< steps that the rank has done, of all operations
  Word epoch;  ///< that the rank is in; its slots may be needed by who is in the one before, not by who is behind that
  Word working;  ///< the tag of the operation whose memory the rank touches now; 0: none
  Word results;  ///< NodeAddress of the results that it has staged for others
  std::array<DescriptorBytes, slots> descriptors;
  std::array<Payload, slots> payloads;
};

}  // namespace lockstep::detail
