// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that the ranks of one node share for one communicator: a control block per rank, written by its owner and
// read by all, and the translation of an address of one rank to the same bytes in another rank.

#pragma once

#include "transport/shm/control_block.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The address of a byte in a rank's shared memory, valid in all ranks of the group. 0 stands for none.
enum class NodeAddress : std::uint64_t { none = 0 };

/// How tests disturb one rank of a node. Production code has no hooks: the pointer to them is null.
struct TestHooks {
  void (*at_flag)() = nullptr;                       ///< called before a flag is written or read: may wait
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
  NodeMemory inputs;   ///< read by other ranks until they have completed the operation
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

  /// For tests; `hooks` outlive the group. Null, as at first: none.
  void set_test_hooks(const TestHooks* hooks) noexcept { test_hooks_ = hooks; }
  /// Before a flag is written or read.
  void at_flag() const {
    if (test_hooks_ != nullptr && test_hooks_->at_flag != nullptr) [[unlikely]] {
      test_hooks_->at_flag();
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
  /// The bytes at `address` of `member`. Throws Error(internal) if they are not in that member's memory.
  [[nodiscard]] virtual std::byte* resolve(int member, NodeAddress address, std::size_t bytes) const = 0;
  /// Allocates memory for tables and staging; empty if the arena is full.
  [[nodiscard]] virtual NodeMemory allocate(std::size_t bytes) const = 0;
  [[nodiscard]] NodeStaging& staging() noexcept { return staging_; }
  /// Makes `memory` at least `bytes` bytes large; its contents are lost. Throws Error(unavailable) if the arena is
  /// full.
  void reserve(NodeMemory& memory, std::size_t bytes);
  /// Keeps `memory` until no member can access it any more, at least for the lifetime of this end.
  virtual void retire(NodeMemory&& memory) = 0;

 protected:
  [[nodiscard]] const Member& member(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }

 private:
  int rank_;
  std::vector<Member> members_;
  const TestHooks* test_hooks_ = nullptr;
  NodeStaging staging_;
};

/// The ends of a group of `size` threads of this process: all addresses are shared.
[[nodiscard]] std::vector<std::unique_ptr<NodeGroup>> make_thread_groups(int size);

/// Gathers `bytes` bytes from every rank of the group into `all`, in rank order. Collective.
using ExchangeFunction = std::function<void(const void* mine, void* all, std::size_t bytes)>;

/// The group of `size` processes of one node, each with its arena. Null on all of them, with the reason in `why`, if
/// one cannot access the memory of another, or does not set `share_memory`. From then on tensors are allocated in the
/// arena by default. Collective.
[[nodiscard]] std::unique_ptr<NodeGroup> make_process_group(int rank, int size, bool share_memory,
                                                            const ExchangeFunction& exchange, std::string& why);

}  // namespace lockstep::detail
