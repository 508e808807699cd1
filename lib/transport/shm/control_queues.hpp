// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages of any size from each rank of a node to each other one, in shared memory: a linked list of blocks per pair
// of ranks, in the sender's memory. A message that has been posted can be received even if the sender does nothing
// more, or ends; and a rank that ends while it posts or receives a message disturbs no other pair.
//
// Cost: one copy of the message on each side; a poll loads one word per rank of the node, which stays in the cache of
// the receiver until a message comes. Blocks that were read are used again, for any receiver: a rank has about as many
// as it has ever had messages under way at one time, and one per receiver.

#pragma once

#include "transport/shm/control_block.hpp"
#include "transport/shm/node_group.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A part of a message. The sender writes all members before it stores the address of the block.
struct ControlQueueBlock {
  static constexpr std::size_t total_bytes = 512;
  static constexpr std::size_t capacity = total_bytes - 24;

  std::atomic<std::uint64_t> next{0};      ///< NodeAddress of the block after this one; 0: it has not been posted yet
  std::uint32_t bytes = 0;                 ///< size of the part
  std::uint32_t is_continued = 0;          ///< 1 if the next block has more of the message
  ControlQueueBlock* following = nullptr;  ///< for the sender alone: the next block of a list
  std::array<std::byte, capacity> data;
};
static_assert(sizeof(ControlQueueBlock) == ControlQueueBlock::total_bytes);

/// The memory of the queues of one rank, for whose address ControlBlock::queues has a word: the ends of the queue to
/// each of `members` ranks, and some blocks, so that a rank can send a message when the arena is full. It is aligned as
/// a control block, and consists of whole pages of the arena, so that it never becomes private together with a tensor.
struct ControlQueueMemory {
  static constexpr std::size_t blocks = 6;  // with the ends for two ranks and an alignment, a page of the usual size
  [[nodiscard]] static constexpr std::size_t offset_of_blocks(std::size_t members) noexcept {
    return members * sizeof(ControlQueueEnds);
  }
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t members) noexcept {
    return offset_of_blocks(members) + blocks * sizeof(ControlQueueBlock);
  }
  /// Makes the ends. The blocks are made by the rank itself.
  static void begin(std::byte* memory, std::size_t members) noexcept;
};

/// The messages of one endpoint. Not thread-safe: called under the engine's lock. The group must outlive this object.
class ControlQueues {
 public:
  /// `ranks` are those of the members of `group` in the group of the caller, in ascending order.
  ControlQueues(NodeGroup& group, std::vector<int> ranks);
  ControlQueues(const ControlQueues&) = delete;
  ControlQueues& operator=(const ControlQueues&) = delete;

  /// Whether `rank` is a member.
  [[nodiscard]] bool reach(int rank) const { return member_of(rank) >= 0; }
  /// Sends a copy of `message` to `rank`, which is another member, and wakes the ranks that sleep. If the arena is
  /// full, the copy waits in this process until a later call of `post`, `poll` or `have_left`. If another allocation
  /// fails, throws std::bad_alloc, and nothing is sent.
  void post(int rank, std::span<const std::byte> message);
  /// Whether no message waits in this process.
  [[nodiscard]] bool have_left();

  struct Message {
    int source;                        ///< a rank
    std::span<const std::byte> bytes;  ///< valid until the next call of `poll`
  };
  /// The next message of any member; none if no message has arrived, or if this rank has left the group. Messages of
  /// one member arrive in order. If an allocation fails, throws std::bad_alloc; the next call returns the message.
  [[nodiscard]] std::optional<Message> poll();

 private:
  using Block = ControlQueueBlock;
  struct Outgoing {
    ControlQueueEnds* ends = nullptr;
    Block* oldest = nullptr;    // the first block that may still be read; its successors are the blocks after it
    Block* last = nullptr;      // the last block; null: none has been sent
    std::uint64_t removed = 0;  // number of blocks before `oldest`
    std::deque<std::vector<std::byte>> waiting;
  };
  struct Incoming {
    ControlQueueEnds* ends = nullptr;
    const std::atomic<std::uint64_t>* next = nullptr;  // where the address of the next block will be
    std::uint64_t taken = 0;
    std::vector<std::byte> message;  // the parts that have been taken of a message that is continued
  };

  [[nodiscard]] int member_of(int rank) const;
  void add_spares(std::byte* memory, std::size_t count) noexcept;
  bool put(Outgoing& out, std::span<const std::byte> message);
  bool flush(Outgoing& out);
  void remove_taken(Outgoing& out) noexcept;
  bool have_spares(std::size_t count);
  Block* new_block(std::span<const std::byte> part, bool is_continued) noexcept;
  bool take(int member, Incoming& in);

  NodeGroup& group_;
  const std::vector<int> ranks_;    // by member
  std::vector<Outgoing> outgoing_;  // by member; unused for this rank
  std::vector<Incoming> incoming_;  // by member
  Block* spare_ = nullptr;          // blocks that are in no queue
  std::size_t spares_ = 0;          // number of them
  bool is_any_waiting_ = false;
  std::size_t next_ = 0;  // the member at which the next poll begins
  std::vector<std::byte> received_;
};

}  // namespace lockstep::detail
