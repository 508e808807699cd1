// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that the ranks of one node share for one communicator: one control block per rank, which its rank writes
// and all ranks read. Also translates an address in one rank's memory to the address of the same bytes in another rank.

#pragma once

#include "base/process.hpp"
#include "device/host/arena.hpp"
#include "schedule/levels.hpp"
#include "transport/shm/control_block.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Names a byte in one rank's shared memory. Every rank of the group can resolve the name. 0 names no byte.
enum class NodeAddress : std::uint64_t { none = 0 };

/// How a rank has left its group. A rank that has left takes no further part, but its process may continue.
enum class Departure : std::uint32_t { none = 0, orderly = 1, by_exception = 2, by_finalize = 3 };

/// Functions by which tests disturb one rank of a node. In production code the pointer to the hooks is null.
struct TestHooks {
  void (*at_flag)() = nullptr;  ///< called before each access to a synchronization word; may wait
  void (*at_turn)() = nullptr;  ///< called when a turn, a bounded amount of work in other ranks' memory, begins
  bool (*hides_memory)(const void* data) = nullptr;  ///< called for each buffer; true hides it from the other ranks
  /// Called when member `reader` reads `bytes` bytes at `data`, which member `owner` has written for it: once for each
  /// awaited flag and for each piece of data. Only in the levels of a node (see schedule/levels).
  void (*at_read)(int reader, int owner, const void* data, std::size_t bytes) = nullptr;
  std::size_t most_staged_bytes = std::size_t{256} << 20;  ///< limit for staging; above it, the ranks use messages
  std::size_t most_turn_bytes = std::numeric_limits<std::size_t>::max();  ///< limit for a turn, beside that of NodeWork
};

/// Gets a call while this rank waits for another member.
class WaitObserver {
 public:
  WaitObserver() = default;
  WaitObserver(const WaitObserver&) = delete;
  WaitObserver& operator=(const WaitObserver&) = delete;
  virtual ~WaitObserver() = default;
  /// This rank waits until `member` no longer accesses its memory. Called about once per millisecond.
  virtual void waits_for(int member) noexcept = 0;
};

/// Owns memory that all ranks of the group can access, and frees it in the destructor.
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
  /// Leaks the memory, because other ranks may access it until the process ends.
  void leak() noexcept;

 private:
  void reset() noexcept;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  void (*free_)(void*, std::size_t) = nullptr;
};

/// Shared memory to which a rank copies data that other ranks cannot access. One operation at a time uses it.
struct NodeStaging {
  NodeMemory inputs;   ///< read by other ranks until this rank has completed the operation
  NodeMemory results;  ///< read by each other rank until that rank arrives at the next operation
};

/// All memory of an endpoint that other members may access.
struct MemoryOfGroup {
  std::array<NodeMemory, 2 + 2 * ControlBlock::slots> staging;  ///< for inputs, results, partial results and payloads
  std::vector<NodeMemory> kept;

  void leak() noexcept {
    for (NodeMemory& each : staging) each.leak();
    for (NodeMemory& each : kept) each.leak();
  }
};

/// The endpoint of one rank in a group. Not thread-safe: the engine calls it under the engine's lock.
class NodeGroup {
 public:
  /// A member of the group, as this process sees it.
  struct Member {
    ControlBlock* control_block = nullptr;
    std::byte* base = nullptr;  ///< address of the member's shared memory in this process
    std::size_t size = 0;       ///< size of the member's shared memory
  };

  /// `levels` is equal on all members.
  NodeGroup(int rank, std::vector<Member> members, std::shared_ptr<const Levels> levels) noexcept
      : rank_(rank), members_(std::move(members)), levels_(std::move(levels)) {}
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;
  virtual ~NodeGroup() = default;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }
  [[nodiscard]] ControlBlock& control_block(int rank) const noexcept {
    return *members_[static_cast<std::size_t>(rank)].control_block;
  }
  [[nodiscard]] ControlBlock& own_control_block() const noexcept { return control_block(rank_); }

  [[nodiscard]] const Levels& levels() const noexcept { return *levels_; }

  /// This rank leaves the group, and from now on the other members can see that it has left. Only the first call has an
  /// effect. The destructor calls depart(Departure::orderly).
  virtual void depart(Departure how) noexcept = 0;
  /// How `member` has left; none if it is still in the group. If it has left, the caller sees all writes that
  /// `member` made before it left.
  [[nodiscard]] virtual Departure departure_of(int member) const noexcept = 0;

  /// From now on, has_ended(member) returns process->has_ended(), or false if `process` is null. Called before other
  /// threads use the group.
  void watch(int member, std::shared_ptr<const ProcessEnd> process) {
    processes_.resize(members_.size());
    processes_[static_cast<std::size_t>(member)] = std::move(process);
  }
  /// Whether the process of `member` is known to have ended, so that it accesses no memory any more. Costs a system
  /// call.
  [[nodiscard]] bool has_ended(int member) const noexcept {
    if (processes_.empty()) return false;
    const auto& process = processes_[static_cast<std::size_t>(member)];
    return process != nullptr && process->has_ended();
  }

  /// From now on, `observer`, which may be null, is told of waits for members that access memory of this rank.
  void observe_waits(WaitObserver* observer) noexcept { wait_observer_ = observer; }
  void tell_wait(int member) const noexcept {
    if (wait_observer_ != nullptr) wait_observer_->waits_for(member);
  }

  /// Wakes the threads of all members that sleep (shm/node_sleep), after this rank has done what they may wait for.
  /// Costs a load if none sleeps. This rank must not have left the group.
  void wake() const noexcept {
    if (control_block(0).any_sleep.value.load(std::memory_order_relaxed) != 0) wake_all();
  }
  /// Wakes the threads of this rank that sleep. Does nothing if this rank has left the group.
  void wake_own() const noexcept;

  /// The number of steps that the members have done in all operations, plus the number of turns inside of long steps
  /// (see ControlBlock::step_counter).
  [[nodiscard]] std::uint64_t steps_of_all() const noexcept {
    std::uint64_t steps = 0;
    for (const Member& member : members_)
      steps += member.control_block->step_counter.value.load(std::memory_order_relaxed) +
               member.control_block->turns.value.load(std::memory_order_relaxed);
    return steps;
  }

  /// For tests. `hooks` must outlive the group. Null, the initial value, means that there are no hooks.
  void set_test_hooks(const TestHooks* hooks) noexcept { test_hooks_ = hooks; }
  /// Called before each access to a synchronization word.
  void at_flag() const {
    if (test_hooks_ != nullptr && test_hooks_->at_flag != nullptr) [[unlikely]] {
      test_hooks_->at_flag();
    }
  }
  /// Called when a turn of work in the memory of other ranks begins.
  void at_turn() const {
    if (test_hooks_ != nullptr && test_hooks_->at_turn != nullptr) [[unlikely]] {
      test_hooks_->at_turn();
    }
  }
  /// Called when this rank reads `bytes` bytes at `data`, which `owner` has written for it.
  void at_read(int owner, const void* data, std::size_t bytes) const {
    if (test_hooks_ != nullptr && test_hooks_->at_read != nullptr) [[unlikely]] {
      test_hooks_->at_read(rank_, owner, data, bytes);
    }
  }
  /// Whether a test hides this buffer from the other ranks.
  [[nodiscard]] bool is_hidden(const void* data) const {
    return test_hooks_ != nullptr && test_hooks_->hides_memory != nullptr && test_hooks_->hides_memory(data);
  }
  /// The limit for staging, in bytes. If a rank would have to stage more bytes of inputs, or more bytes of results, the
  /// ranks of its node use messages instead.
  [[nodiscard]] std::size_t most_staged_bytes() const noexcept {
    return test_hooks_ != nullptr ? test_hooks_->most_staged_bytes : TestHooks().most_staged_bytes;
  }
  [[nodiscard]] std::size_t most_turn_bytes() const noexcept {
    return test_hooks_ != nullptr ? test_hooks_->most_turn_bytes : TestHooks().most_turn_bytes;
  }

  /// The address by which the other ranks find [data, data + bytes) of this rank; none if they cannot access these
  /// bytes.
  [[nodiscard]] virtual NodeAddress address_of(const void* data, std::size_t bytes) const noexcept = 0;
  /// The number of calls of `unshare` in this process. While this number is unchanged, the results of `address_of` stay
  /// valid.
  [[nodiscard]] virtual std::uint64_t unshares() const noexcept = 0;
  /// Whether `unshare` can cut off a rank that does not stop accessing this rank's memory. False if the ranks are
  /// threads of one process; `unshare` then does nothing.
  [[nodiscard]] virtual bool can_unshare() const noexcept = 0;
  /// Ends the other ranks' access to `ranges` of this rank: a rank that still accesses `ranges` accesses other memory.
  /// In this process `ranges` keep their contents and addresses. From now on `address_of` returns none for `ranges`,
  /// and for the rest of the first and the last page of each range.
  virtual void unshare(std::span<const std::span<std::byte>> ranges) noexcept = 0;
  /// The bytes at `address` of `member`. Throws Error(internal) if these bytes are outside of that member's memory.
  [[nodiscard]] virtual std::byte* resolve(int member, NodeAddress address, std::size_t bytes) const = 0;
  /// Allocates memory for tables and staging; empty if the arena is full. A block smaller than a page may share its
  /// page with tensors. If `unshare` makes such a tensor private, the block becomes private, too.
  [[nodiscard]] virtual NodeMemory allocate(std::size_t bytes) const = 0;
  [[nodiscard]] NodeStaging& staging() noexcept { return staging_; }
  /// Makes the staging memory for inputs, or for results, at least `bytes` bytes large, in whole pages, and at most
  /// twice as large as the largest of the last `staging_history` reservations. The contents are lost, so no other rank
  /// may still read this memory. Throws Error(unavailable) if the arena is full.
  void reserve_inputs(std::size_t bytes) { reserve(staging_.inputs, input_use_, bytes); }
  void reserve_results(std::size_t bytes) { reserve(staging_.results, result_use_, bytes); }
  static constexpr int staging_history = 64;

  /// The memory for partial results of an operation whose tag is in `slot`, at least `bytes` bytes. The contents are
  /// lost, so no other rank may still read them: to be called when this rank arrives at the operation. Throws
  /// Error(unavailable) if the arena is full.
  [[nodiscard]] std::byte* reserve_scratch(std::size_t slot, std::size_t bytes);
  /// Memory of this rank, and its address for the other ranks.
  struct Payload {
    std::byte* data = nullptr;
    NodeAddress address = NodeAddress::none;
  };
  /// The memory for small data of an operation whose tag is in `slot`, at least `bytes` bytes and aligned to cache
  /// lines, which this rank writes for the others. As `reserve_scratch`.
  Payload reserve_payload(std::size_t slot, std::size_t bytes);
  /// What the last call of `reserve_payload` for `slot` has returned.
  [[nodiscard]] const Payload& payload(std::size_t slot) const noexcept { return payloads_[slot]; }
  /// Allocates memory, in whole pages and aligned as a control block, that is freed when all members have left the
  /// group. Returns null if the arena is full. If another allocation fails, throws std::bad_alloc.
  [[nodiscard]] std::byte* keep(std::size_t bytes);

 protected:
  [[nodiscard]] const Member& member(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  /// All memory that other ranks may access until they leave the group.
  [[nodiscard]] MemoryOfGroup take_memory() noexcept;

 private:
  void wake_all() const noexcept;

  /// The recent reservations of one kind of staging memory.
  struct StagingUse {
    std::size_t most_bytes = 0;  // the largest of the last `count` reservations
    int count = 0;
  };
  void reserve(NodeMemory& memory, StagingUse& use, std::size_t bytes);
  void grow(NodeMemory& memory, std::size_t bytes, const char* use);

  int rank_;
  std::vector<Member> members_;
  std::shared_ptr<const Levels> levels_;
  std::vector<std::shared_ptr<const ProcessEnd>> processes_;  // by member, or empty; null: not watched
  WaitObserver* wait_observer_ = nullptr;
  const TestHooks* test_hooks_ = nullptr;
  NodeStaging staging_;
  std::array<NodeMemory, ControlBlock::slots> scratch_;
  std::array<NodeMemory, ControlBlock::slots> payload_memory_;
  std::array<Payload, ControlBlock::slots> payloads_;
  std::vector<NodeMemory> kept_;
  StagingUse input_use_;
  StagingUse result_use_;
};

/// The endpoints of a group of `size` threads of this process. The threads can access all memory of each other.
/// `places` are those of the threads, by rank; if it is empty, the threads share all caches.
[[nodiscard]] std::vector<std::unique_ptr<NodeGroup>> make_thread_groups(int size,
                                                                         std::span<const NodePlace> places = {});

/// The data by which the other processes of a node find the memory of a member. Sent as bytes.
struct NodeIntroduction {
  SegmentName segment;
  std::uint64_t control_block = 0;  ///< offset in the segment
  std::uint64_t closed = 0;         ///< offset in the segment of the flag that the member sets when it leaves
  NodePlace place;
};
static_assert(std::is_trivially_copyable_v<NodeIntroduction>);

/// Makes a group of processes of one node, each of which has an arena. The caller exchanges the introductions of all
/// members, calls `open`, and exchanges the results of `open`. If the offer is destroyed before `take`, memory that
/// other members may still access is kept.
class ProcessGroupOffer {
 public:
  /// Allocates the control block of this process. If `share_memory` is false, or if the allocation fails, the
  /// introduction is empty. `place` is where this process runs. Local.
  explicit ProcessGroupOffer(bool share_memory, const NodePlace& place = {});
  ProcessGroupOffer(const ProcessGroupOffer&) = delete;
  ProcessGroupOffer& operator=(const ProcessGroupOffer&) = delete;
  ~ProcessGroupOffer();

  [[nodiscard]] const NodeIntroduction& introduction() const noexcept;
  /// Maps the memory of all members. Returns whether that succeeds. Member `rank` is this process. Local.
  [[nodiscard]] bool open(int rank, std::span<const NodeIntroduction> members);
  /// Returns the group. Called only after `open` has succeeded on all members. From then on, tensors of this process
  /// are allocated in the arena by default. Local.
  [[nodiscard]] std::unique_ptr<NodeGroup> take();
  /// Frees the memory of the offer at once. Called only if no other member will access this memory. Local.
  void withdraw() noexcept;
  /// The reason why the introduction is empty, or why `open` has failed.
  [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }

 private:
  [[nodiscard]] bool open_queues(const NodeIntroduction& own, std::size_t members);

  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::string why_not_;
};

}  // namespace lockstep::detail
