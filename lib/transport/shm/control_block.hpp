// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory by which a rank communicates with the other ranks of its node. Every word has one writer, but for
// first_to_fail and those of sleeps. Words that are read together share cache lines. Words with different readers are
// 128 bytes apart, since processors fetch cache lines of 64 bytes in pairs.

#pragma once

#include "schedule/levels.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

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

/// Words that hold bytes. Words beside a tag hold data that needs no cache line of its own.
template <std::size_t count>
class LooseBytes {
 public:
  static constexpr std::size_t capacity = count * sizeof(std::uint64_t);

  /// Stores at most `capacity` bytes.
  void put(std::span<const std::byte> bytes) noexcept {
    std::array<std::uint64_t, count> words{};
    if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
    for (std::size_t k = 0; k * sizeof(std::uint64_t) < bytes.size(); ++k) words_[k] = words[k];
  }
  /// Loads the first `bytes.size()` bytes.
  void get(std::span<std::byte> bytes) const noexcept {
    std::array<std::uint64_t, count> words{};
    for (std::size_t k = 0; k * sizeof(std::uint64_t) < bytes.size(); ++k) words[k] = words_[k].get();
    if (!bytes.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  }
  [[nodiscard]] LooseWord<std::uint64_t>& word(std::size_t k) noexcept { return words_[k]; }
  [[nodiscard]] const LooseWord<std::uint64_t>& word(std::size_t k) const noexcept { return words_[k]; }

 private:
  std::array<LooseWord<std::uint64_t>, count> words_;
};

/// The data that a rank publishes for one operation. The rank writes all members except `abandoned` before it writes
/// `tag`. It leaves them unchanged until all ranks have completed or abandoned the operation.
struct alignas(control_block_alignment) Arrival {
  std::atomic<std::uint64_t> tag{0};
  std::atomic<std::uint64_t> abandoned{0};  ///< tag of the last operation in this slot that the rank has abandoned
  LooseWord<std::uint64_t> hash;            ///< hash of the descriptor
  /// The four words below, or the data of an operation that needs none of them.
  LooseBytes<4> data;
  LooseWord<std::uint32_t> flags;

  /// The rank's step counter when it arrived.
  [[nodiscard]] LooseWord<std::uint64_t>& step_counter() noexcept { return data.word(0); }
  [[nodiscard]] const LooseWord<std::uint64_t>& step_counter() const noexcept { return data.word(0); }
  /// NodeAddress of the table of the rank's buffers.
  [[nodiscard]] LooseWord<std::uint64_t>& table() noexcept { return data.word(1); }
  [[nodiscard]] const LooseWord<std::uint64_t>& table() const noexcept { return data.word(1); }
  /// A number that changes with the contents of the table.
  [[nodiscard]] LooseWord<std::uint64_t>& table_id() noexcept { return data.word(2); }
  [[nodiscard]] const LooseWord<std::uint64_t>& table_id() const noexcept { return data.word(2); }
  /// NodeAddress of the rank's staging memory, or of its payload.
  [[nodiscard]] LooseWord<std::uint64_t>& staging() noexcept { return data.word(3); }
  [[nodiscard]] const LooseWord<std::uint64_t>& staging() const noexcept { return data.word(3); }
};
static_assert(sizeof(Arrival) == control_block_alignment && offsetof(Arrival, flags) < 64);  // one cache line

/// What a rank knows after one level of the agreement (schedule/levels): about all ranks of its group.
struct alignas(control_block_alignment) LevelLine {
  std::atomic<std::uint64_t> tag{0};
  LooseWord<std::uint64_t> hash;  ///< hash of the descriptor; another number if the ranks of the group differ
  LooseBytes<6> data;             ///< the part of CarriedData, if it has at most this size; else its NodeAddress
};

/// How far a rank is in a reduction by levels.
struct alignas(control_block_alignment) LevelProgress {
  std::atomic<std::uint64_t> phase{0};              ///< see level_phase
  std::array<LooseWord<std::uint64_t>, 4> scratch;  ///< by slot: NodeAddress of the rank's partial results
};

/// A number for a phase of the operation with the tag `tag`: greater for later phases and later operations.
inline constexpr std::uint64_t most_level_phases = 16;
[[nodiscard]] constexpr std::uint64_t level_phase(std::uint64_t tag, std::uint64_t phase) noexcept {
  return tag * most_level_phases + phase;
}

/// The queue of control messages from one rank to another (shm/control_queues). In the memory of the sender.
struct ControlQueueEnds {
  alignas(control_block_alignment) std::atomic<std::uint64_t> first{0};  ///< NodeAddress of the first block; 0: none
  alignas(control_block_alignment) std::atomic<std::uint64_t> taken{0};  ///< number of blocks that were read
};

/// In later epochs the numbers above would begin again, and equal those of old operations.
inline constexpr std::uint64_t most_epochs = std::uint64_t{1} << 20;
static_assert(level_phase(operation_tag(most_epochs - 1, 0), 0) / most_level_phases >> 40 == most_epochs - 1);

struct ControlBlock {
  /// Consecutive operations use different slots, because a slow rank may still read the slot of the previous operation.
  /// For the same reason, operations of consecutive epochs use different slots.
  static constexpr std::size_t slots = 4;
  static constexpr std::size_t most_payload_bytes = 16 * 1024;  ///< see NodeGroup::reserve_payload
  static constexpr std::size_t descriptor_bytes = 512;
  static constexpr std::size_t verdict_bytes = 896;

  [[nodiscard]] static constexpr std::size_t slot_of(std::uint64_t tag) noexcept {
    return (epoch_of_tag(tag) & 1) << 1 | (tag & 1);
  }

  struct alignas(control_block_alignment) Word {
    std::atomic<std::uint64_t> value{0};
  };
  /// The sleep of the threads of the rank that wait (shm/node_sleep).
  struct alignas(control_block_alignment) Sleep {
    std::atomic<std::uint32_t> wakes{0};         ///< a futex: how often they have been woken
    std::atomic<std::uint32_t> is_announced{0};  ///< 1: the rank that sets it to 0 wakes them
  };
  struct alignas(control_block_alignment) DescriptorBytes {
    std::array<std::byte, descriptor_bytes> bytes;
  };

  /// Payloads of the levels: the part of level k begins at byte k * level_payload_bytes.
  static constexpr std::size_t level_payload_bytes = 2048;

  /// Whether the ranks of all nodes made the same call. The first rank of this node writes the verdict for the other
  /// ranks of the node.
  struct alignas(control_block_alignment) Verdict {
    std::atomic<std::uint64_t> tag{0};
    LooseWord<std::uint64_t> result;  ///< NodeAddress of the result of an operation that carries data
    std::uint32_t agree = 0;
    std::array<std::byte, verdict_bytes> summary;  ///< set if the ranks disagree
  };

  /// The failure that has ended an epoch on this rank (engine/node_failures).
  struct alignas(control_block_alignment) EndedEpoch {
    static constexpr std::size_t capacity = 704;
    std::atomic<std::uint64_t> state{0};  ///< which epoch, and whether the record counts; 0: it is being written
    LooseWord<std::int64_t> sequence;
    LooseBytes<capacity / sizeof(std::uint64_t)> record;
  };

  std::array<Arrival, slots> arrivals;
  std::array<Verdict, slots> verdicts;
  std::array<std::array<LevelLine, Levels::most_levels - 1>, slots> levels;  ///< by slot and level, without level 0
  LevelProgress level_progress;
  /// Number of steps that the rank has done, in all operations. A step is a part of the work on an operation; other
  /// ranks can wait until the rank has done it. A turn is a bounded amount of work inside a long step.
  Word step_counter;
  Word epoch;    ///< the rank's epoch. A rank that is one epoch behind may still need this rank's slots; a rank further
                 ///< behind does not
  Word working;  ///< tag of the operation for which the rank accesses other ranks' memory; 0 if none
  Word turns;    ///< number of turns inside of long steps that the rank has done, in all operations
  Word process;  ///< process id of the rank; 0 if unknown
  Word first_to_fail;  ///< in the block of member 0, which all members write: the first that has ended the latest epoch
  Word any_sleep;      ///< in the block of member 0, which all members write: 1 if any rank may have announced a sleep
  Sleep sleep;
  std::array<EndedEpoch, 2> ended_epochs;
  Word queues;   ///< NodeAddress of the rank's array of ControlQueueEnds, by receiver; set before the group is used
  Word results;  ///< NodeAddress of the results that the rank has staged for other ranks
  std::array<DescriptorBytes, slots> descriptors;
};

}  // namespace lockstep::detail
