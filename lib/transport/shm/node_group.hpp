// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one node share for one communicator: a control block per rank, written by its owner and read by
// all, and the way from an address of one rank to the same bytes in another.

#pragma once

#include "transport/shm/control_block.hpp"
#include "transport/shm/test_hooks.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The place of a byte in a rank's shared memory, the same for all who look. 0 is no place.
enum class NodeAddress : std::uint64_t { none = 0 };

/// Memory that all ranks of the group see, freed at the end.
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
  /// Gives the memory up for ever: somebody may touch it until the process ends.
  void leak() noexcept;

 private:
  void reset() noexcept;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  void (*free_)(void*, std::size_t) = nullptr;
};

/// Where memory goes that others cannot see. Used by one operation after the other.
struct NodeStaging {
  NodeMemory inputs;   ///< read by others until they have done their part
  NodeMemory results;  ///< read by others until they come to the next operation
};

/// One rank's end of the group. Not thread-safe: the engine calls under its lock.
class NodeGroup {
 public:
  /// One member's part: what this end sees of it.
  struct Member {
    ControlBlock* control_block = nullptr;
    std::byte* base = nullptr;  ///< where its shared memory lies in this process
    std::size_t size = 0;       ///< of that memory
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

  /// Where the others find [data, data + bytes) of this rank; none if they cannot.
  [[nodiscard]] virtual NodeAddress address_of(const void* data, std::size_t bytes) const noexcept = 0;
  /// The bytes at `address` of `member`. Throws Error(internal) when they are not in that member's memory.
  [[nodiscard]] virtual std::byte* resolve(int member, NodeAddress address, std::size_t bytes) const = 0;
  /// Memory for tables and staging; empty when there is no room.
  [[nodiscard]] virtual NodeMemory allocate(std::size_t bytes) const = 0;
  [[nodiscard]] NodeStaging& staging() noexcept { return staging_; }
  /// Makes `memory` at least `bytes` bytes large; what was in it is lost. Throws Error(unavailable) when there is no
  /// room.
  void reserve(NodeMemory& memory, std::size_t bytes);
  /// Keeps `memory` until no member can look at it any more, at least as long as this end lives.
  virtual void retire(NodeMemory&& memory) = 0;

 protected:
  [[nodiscard]] const Member& member(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }

 private:
  int rank_;
  std::vector<Member> members_;
  const TestHooks* test_hooks_ = nullptr;
  NodeStaging staging_;
};

/// Group ends for `size` threads of this process: every address is shared.
[[nodiscard]] std::vector<std::unique_ptr<NodeGroup>> make_thread_groups(int size);

/// Gathers `bytes` bytes from every rank of the group into `all`, in rank order. Collective.
using ExchangeFunction = std::function<void(const void* mine, void* all, std::size_t bytes)>;

/// The group of `size` processes of one node, each with its arena. Null on all of them when one cannot be seen by
/// another, or does not say `share_memory`; `why` then says why. Tensors live in the
/// arena by default from then on. Collective.
[[nodiscard]] std::unique_ptr<NodeGroup> make_process_group(int rank, int size, bool share_memory,
                                                            const ExchangeFunction& exchange, std::string& why);

}  // namespace lockstep::detail
