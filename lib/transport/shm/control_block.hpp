// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory by which a rank communicates with the other ranks of its node. Every word has one writer. Words that are
// read together share cache lines. Words with different readers are 128 bytes apart, since processors fetch cache lines
// of 64 bytes in pairs.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "control blocks are shared between processes");

inline constexpr std::size_t control_block_alignment = 128;

/// A number for one operation of a communicator: greater in a later epoch, and within one epoch greater for a higher
/// sequence number.
[[nodiscard]] constexpr std::uint64_t operation_tag(std::uint64_t epoch, std::int64_t sequence) noexcept {
  return epoch << 40 | (static_cast<std::uint64_t>(sequence) + 1);
}
[[nodiscard]] constexpr std::uint64_t epoch_of_tag(std::uint64_t tag) noexcept { return tag >> 40; }
[[nodiscard]] constexpr std::int64_t sequence_of_tag(std::uint64_t tag) noexcept {
  return static_cast<std::int64_t>(tag & ((std::uint64_t{1} << 40) - 1)) - 1;
}

/// A word whose accesses are ordered by the atomic words beside it. The word is atomic, too: a rank that was stopped
/// for a long time may still read it for an abandoned operation, while the writer already stores the value of a later
/// operation.
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

/// The data that a rank publishes for one operation. The rank writes all members except `abandoned` before it writes
/// `tag`. It leaves them unchanged until all ranks have completed or abandoned the operation.
struct alignas(control_block_alignment) Arrival {
  std::atomic<std::uint64_t> tag{0};
  std::atomic<std::uint64_t> abandoned{0};  ///< tag of the last operation in this slot that the rank has abandoned
  LooseWord<std::uint64_t> hash;            ///< hash of the descriptor
  LooseWord<std::uint64_t> step_counter;    ///< the rank's step counter when it arrived
  LooseWord<std::uint64_t> table;           ///< NodeAddress of the table of the rank's buffers
  LooseWord<std::uint64_t> table_id;        ///< a number that changes with the contents of the table
  LooseWord<std::uint64_t> staging;         ///< NodeAddress of the rank's staging memory
  LooseWord<std::uint32_t> flags;
};

struct ControlBlock {
  /// Consecutive operations use different slots, because a slow rank may still read the slot of the previous operation.
  /// For the same reason, operations of consecutive epochs use different slots.
  static constexpr std::size_t slots = 4;
  static constexpr std::size_t payload_bytes = 16 * 1024;
  static constexpr std::size_t descriptor_bytes = 384;
  static constexpr std::size_t verdict_bytes = 768;

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

  /// Whether the ranks of all nodes made the same call. The first rank of this node writes the verdict for the other
  /// ranks of the node.
  struct alignas(control_block_alignment) Verdict {
    std::atomic<std::uint64_t> tag{0};
    std::uint32_t agree = 0;
    std::array<std::byte, verdict_bytes> summary;  ///< set if the ranks disagree
  };

  std::array<Arrival, slots> arrivals;
  std::array<Verdict, slots> verdicts;
  /// Number of steps that the rank has done, in all operations. A step is a part of the work on an operation; other
  /// ranks can wait until the rank has done it. A turn is a bounded amount of work inside a long step.
  Word step_counter;
  Word epoch;    ///< the rank's epoch. A rank that is one epoch behind may still need this rank's slots; a rank further
                 ///< behind does not
  Word working;  ///< tag of the operation for which the rank accesses other ranks' memory; 0 if none
  Word turns;    ///< number of turns inside of long steps that the rank has done, in all operations
  Word process;  ///< process id of the rank; 0 if unknown
  Word results;  ///< NodeAddress of the results that the rank has staged for other ranks
  std::array<DescriptorBytes, slots> descriptors;
  std::array<Payload, slots> payloads;
};

}  // namespace lockstep::detail
