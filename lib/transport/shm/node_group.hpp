// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that the ranks of one node share for one communicator: a control block per rank, written by its owner and
// read by all, and the translation of an address of one rank to the same bytes in another rank.

#pragma once

#include "device/host/arena.hpp"
#include "transport/shm/control_block.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The address of a byte in a rank's shared memory, valid in all ranks of the group. 0 stands for none.
enum class NodeAddress : std::uint64_t { none = 0 };

/// How a rank has left its group: it does not take part any more, though its process may go on.
enum class Departure : std::uint32_t { none = 0, orderly = 1, by_exception = 2 };

/// How tests disturb one rank of a node. Production code has no hooks: the pointer to them is null.
struct TestHooks {
  void (*at_flag)() = nullptr;                       ///< called before a flag is written or read: may wait
  void (*at_turn)() = nullptr;                       ///< called when a turn of work in other ranks' memory begins
  bool (*hides_memory)(const void* data) = nullptr;  ///< asked for each buffer of an operation: hides it from others
  std::size_t most_staged_bytes = std::size_t{256} << 20;  ///< of inputs of a rank; more go by messages
};

/// Memory that all ranks of the group can access, freed by the destructor.
class NodeMemory {
 public:
  NodeMemory() = default;
  NodeMemory(void* data, std::size_t bytes, void (*free)(void*, std::size_t)) noexcept
      : data_(static_cast<std::byte*>(data)), bytes_(bytes), free_(free) {}
  NodeMemory(NodeMemory&& other) noexcept;
  NodeMemory& operator=(NodeMemory&& other) noexcept;
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;
  ~NodeMemory() { reset(); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  /// Leaks the memory, which may be accessed until the process ends.
  void leak() noexcept;

 private:
  void reset() noexcept;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  void (*free_)(void*, std::size_t) = nullptr;
};

/// Staging memory for data that other ranks cannot access. Used by one operation at a time.
struct NodeStaging {
  NodeMemory inputs;   ///< read by other ranks until this rank has completed the operation
  NodeMemory results;  ///< read by other ranks until they arrive at the next operation
};

/// One rank's end of the group. Not thread-safe: the engine calls it under its lock.
class NodeGroup {
 public:
  /// A member of the group, as this end sees it.
  struct Member {
    ControlBlock* control_block = nullptr;
    std::byte* base = nullptr;  ///< address of its shared memory in this process
    std::size_t size = 0;       ///< size of its shared memory
  };

  NodeGroup(int rank, std::vector<Member> members) noexcept : rank_(rank), members_(std::move(members)) {}
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;
  virtual ~NodeGroup() = default;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }
  [[nodiscard]] ControlBlock& control_block(int rank) const noexcept {
    return *members_[static_cast<std::size_t>(rank)].control_block;
  }
  [[nodiscard]] ControlBlock& own_control_block() const noexcept { return control_block(rank_); }

  /// This rank leaves; the members see it from now on. The destructor does the same, if this was not called before.
  virtual void depart(Departure how) noexcept = 0;
  /// How `member` has left. What it wrote before is visible to the caller.
  [[nodiscard]] virtual Departure departure_of(int member) const noexcept = 0;

  /// Number of steps, and turns of long ones, that all members have done, in all operations.
  [[nodiscard]] std::uint64_t steps_of_all() const noexcept {
    std::uint64_t steps = 0;
    for (const Member& member : members_)
      steps += member.control_block->step_counter.value.load(std::memory_order_relaxed) +
               member.control_block->turns.value.load(std::memory_order_relaxed);
    return steps;
  }

  /// For tests; `hooks` outlive the group. Null, as at first: none.
  void set_test_hooks(const TestHooks* hooks) noexcept { test_hooks_ = hooks; }
  /// Before a flag is written or read.
  void at_flag() const {
    if (test_hooks_ != nullptr && test_hooks_->at_flag != nullptr) [[unlikely]] {
      test_hooks_->at_flag();
    }
  }
  /// A turn of work in the memory of other ranks begins.
  void at_turn() const {
    if (test_hooks_ != nullptr && test_hooks_->at_turn != nullptr) [[unlikely]] {
      test_hooks_->at_turn();
    }
  }
  /// Whether a test hides this buffer from the other ranks.
  [[nodiscard]] bool is_hidden(const void* data) const {
    return test_hooks_ != nullptr && test_hooks_->hides_memory != nullptr && test_hooks_->hides_memory(data);
  }
  /// More bytes of inputs of this rank than this are not staged.
  [[nodiscard]] std::size_t most_staged_bytes() const noexcept {
    return test_hooks_ != nullptr ? test_hooks_->most_staged_bytes : TestHooks().most_staged_bytes;
  }

  /// The address by which the other ranks find [data, data + bytes) of this rank; none if they cannot access it.
  [[nodiscard]] virtual NodeAddress address_of(const void* data, std::size_t bytes) const noexcept = 0;
  /// Number of calls of `unshare` in this process. As long as it does not change, an address of `address_of` stays
  /// valid.
  [[nodiscard]] virtual std::uint64_t unshares() const noexcept = 0;
  /// Whether `unshare` can separate the memory of this rank from a rank that does not stop to access it. If not, the
  /// ranks are threads of one process.
  [[nodiscard]] virtual bool can_unshare() const noexcept = 0;
  /// From now on no other rank can access `ranges` of this rank: a rank that still does accesses other memory. Their
  /// contents and addresses stay; `address_of` is none for them, and for the rest of their first and last pages.
  virtual void unshare(std::span<const std::span<std::byte>> ranges) noexcept = 0;
  /// The bytes at `address` of `member`. Throws Error(internal) if they are not in that member's memory.
  [[nodiscard]] virtual std::byte* resolve(int member, NodeAddress address, std::size_t bytes) const = 0;
  /// Allocates memory for tables and staging; empty if the arena is full. Less than a page may be on one page with
  /// tensors, and become private together with them.
  [[nodiscard]] virtual NodeMemory allocate(std::size_t bytes) const = 0;
  [[nodiscard]] NodeStaging& staging() noexcept { return staging_; }
  /// Makes staging memory at least `bytes` bytes large, in whole pages, and at most twice as large as the largest of
  /// the last `staging_history` reservations; its contents are lost. No other rank may read it any more. Throws
  /// Error(unavailable) if the arena is full.
  void reserve_inputs(std::size_t bytes) { reserve(staging_.inputs, input_use_, bytes); }
  void reserve_results(std::size_t bytes) { reserve(staging_.results, result_use_, bytes); }
  static constexpr int staging_history = 64;

 protected:
  [[nodiscard]] const Member& member(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }

 private:
  /// The recent reservations of one kind of staging memory.
  struct StagingUse {
    std::size_t most_bytes = 0;  // of the last `count`
    int count = 0;
  };
  void reserve(NodeMemory& memory, StagingUse& use, std::size_t bytes);

  int rank_;
  std::vector<Member> members_;
  const TestHooks* test_hooks_ = nullptr;
  NodeStaging staging_;
  StagingUse input_use_;
  StagingUse result_use_;
};

/// The ends of a group of `size` threads of this process: all addresses are shared.
[[nodiscard]] std::vector<std::unique_ptr<NodeGroup>> make_thread_groups(int size);

/// The data by which the other processes of a node find a member; sent as bytes.
struct NodeIntroduction {
  SegmentName segment;
  std::uint64_t control_block = 0;  ///< offset in the segment
  std::uint64_t closed = 0;         ///< offset of the flag that says that the member has left
};
static_assert(std::is_trivially_copyable_v<NodeIntroduction>);

/// A group of processes of one node in the making, each with its arena. The caller exchanges the introductions of all
/// members, then the results of `open`. If it is destroyed before `take`, memory that other members may access is kept.
class ProcessGroupOffer {
 public:
  /// Allocates the control block of this process. An offer that does not share memory has an empty introduction. Local.
  explicit ProcessGroupOffer(bool share_memory);
  ProcessGroupOffer(const ProcessGroupOffer&) = delete;
  ProcessGroupOffer& operator=(const ProcessGroupOffer&) = delete;
  ~ProcessGroupOffer();

  [[nodiscard]] const NodeIntroduction& introduction() const noexcept;
  /// Maps the memory of all members; whether that succeeds. Member `rank` is this process. Local.
  [[nodiscard]] bool open(int rank, std::span<const NodeIntroduction> members);
  /// The group. All members have opened it. From then on tensors are allocated in the arena by default. Local.
  [[nodiscard]] std::unique_ptr<NodeGroup> take();
  /// No member makes the group: nothing is kept for the other members. Local.
  void withdraw() noexcept;
  /// The reason for an empty introduction, or for `open` to fail.
  [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::string why_not_;
};

}  // namespace lockstep::detail
