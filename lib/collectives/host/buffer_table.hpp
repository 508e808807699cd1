// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The addresses of the buffers of one operation, published once to the other ranks of the node.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include "collectives/call/host_item.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// This rank's buffers, listed in shared memory. They must not move or change while other ranks may read them: until
/// all ranks have done their work of the operation.
class OwnTable {
 public:
  OwnTable(NodeGroup& group, std::span<const HostItem> items, ReduceOp op);

  /// Before the table is published again: makes a new one if buffers have left shared memory since the last time.
  void refresh(NodeGroup& group) {
    if (group.unshares() != unshares_) list(group);
  }

  /// Whether the other ranks can map all buffers.
  [[nodiscard]] bool is_visible() const noexcept { return is_visible_; }
  [[nodiscard]] NodeAddress address() const noexcept { return address_; }
  /// Never 0, and different for every table of this process.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] NodeAddress input(std::size_t item, std::size_t replica) const {
    return word(items_[item].inputs + replica);
  }
  [[nodiscard]] NodeAddress output(std::size_t item, std::size_t index) const {
    return word(items_[item].outputs + index);
  }

  /// Throws Error(unavailable) if an output has left shared memory since the last `refresh`: results that other ranks
  /// have written are not in it.
  void require_outputs(const NodeGroup& group) const;
  /// Another rank may still read the table: leaks its memory.
  void leak() noexcept { memory_.leak(); }
  /// Another rank may still write to the outputs: those that it can map leave shared memory. Returns their bytes.
  std::size_t unshare_outputs(NodeGroup& group) const;

 private:
  struct Offsets {
    std::size_t inputs;  // index of the first word
    std::size_t outputs;
  };
  struct Buffer {
    std::size_t word;
    std::span<std::byte> bytes;
    bool is_output;
  };
  [[nodiscard]] NodeAddress word(std::size_t index) const { return static_cast<NodeAddress>(words_[index]); }
  void add(const void* data, std::size_t bytes, bool is_output);
  void list(NodeGroup& group);

  std::vector<std::uint64_t> words_;
  std::vector<Offsets> items_;
  std::vector<Buffer> buffers_;
  NodeMemory memory_;
  NodeAddress address_ = NodeAddress::none;
  std::uint64_t id_ = 0;
  std::uint64_t unshares_ = 0;  // NodeGroup::unshares before the buffers were listed
  bool is_visible_ = true;
};

/// Another rank's table, as pointers of this process.
class PeerTable {
 public:
  /// The id of the table that was read last; 0 if none.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// Reads the table at `address` of `rank`, which has `replicas` replicas.
  void read(const NodeGroup& group, int rank, NodeAddress address, std::uint64_t id, std::span<const HostItem> items,
            int replicas, ReduceOp op);
  /// Null if this rank cannot map the buffer.
  [[nodiscard]] const std::byte* input(std::size_t item, std::size_t replica) const {
    return inputs_[item * replicas_ + replica];
  }
  [[nodiscard]] std::span<std::byte* const> outputs(std::size_t item) const {
    return std::span(outputs_).subspan(first_output_[item], first_output_[item + 1] - first_output_[item]);
  }

 private:
  std::uint64_t id_ = 0;
  std::size_t replicas_ = 0;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<std::size_t> first_output_;
};

}  // namespace lockstep::detail
