// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables of the addresses of an operation's buffers, which the ranks of a node publish to each other.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include "collectives/call/host_item.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A table, in shared memory, of the addresses of this rank's buffers. The buffers must not be freed or changed by the
/// caller until all ranks have done their work of the operation, because other ranks may access them until then.
class OwnTable {
 public:
  OwnTable(NodeGroup& group, std::span<const HostItem> items, ReduceOp op);

  /// To be called before the table is published again. Makes a new table if memory of this process has left shared
  /// memory (NodeGroup::unshare) since the table was made.
  void refresh(NodeGroup& group) {
    if (group.unshares() != unshares_) list(group);
  }

  /// Whether the other ranks can map all buffers.
  [[nodiscard]] bool is_visible() const noexcept { return is_visible_; }
  [[nodiscard]] NodeAddress address() const noexcept { return address_; }
  /// Number of the table: never 0, and different for every table of this process.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] NodeAddress input(std::size_t item, std::size_t replica) const {
    return word(items_[item].inputs + replica);
  }
  [[nodiscard]] NodeAddress output(std::size_t item, std::size_t index) const {
    return word(items_[item].outputs + index);
  }

  /// Throws Error(unavailable) if an output has left shared memory since the table was made: the output then lacks
  /// results that other ranks have written.
  void require_outputs(const NodeGroup& group) const;
  /// Leaks the memory of the table, because another rank may still read it.
  void leak() noexcept { memory_.leak(); }
  /// Removes from shared memory all outputs that other ranks can map, because another rank may still write to them.
  /// Returns the number of bytes of these outputs.
  std::size_t unshare_outputs(NodeGroup& group) const;

 private:
  struct Offsets {
    std::size_t inputs;  // index of the word of the first input
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
  std::uint64_t unshares_ = 0;  // value of NodeGroup::unshares before the buffers were listed
  bool is_visible_ = true;
};

/// The table of another rank, with its addresses converted to pointers of this process.
class PeerTable {
 public:
  /// The id of the table that was read last; 0 if no table was read.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// Reads the table of `rank` at `address`. `rank` has `replicas` inputs per item.
  void read(const NodeGroup& group, int rank, NodeAddress address, std::uint64_t id, std::span<const HostItem> items,
            int replicas, ReduceOp op);
  /// The address of an input; null if this rank cannot map the input.
  [[nodiscard]] const std::byte* input(std::size_t item, std::size_t replica) const {
    return inputs_[item * replicas_ + replica];
  }
  /// The addresses of the outputs of `item`; null for each output that this rank cannot map.
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
