// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of one exchange: slices, message sizes, and how the owner folds its slice. Nothing here moves data.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/descriptor.hpp"
#include "collectives/call/host_item.hpp"
#include "schedule/canonical_tree.hpp"
#include "schedule/partition.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Arrays inside a message start at multiples of this.
inline constexpr std::size_t array_alignment = 64;

/// Bytes of `count` elements in a message, padding included.
[[nodiscard]] constexpr std::size_t padded_bytes(std::int64_t count, DType dtype) noexcept {
  return (static_cast<std::size_t>(count) * size_of(dtype) + array_alignment - 1) / array_alignment * array_alignment;
}

/// How a result is made.
enum class Assembly : std::uint8_t {
  fold,         ///< from every rank's partial results
  concatenate,  ///< every rank has the parts of its replicas already
  scatter,      ///< the root sends each owner its slice
};

class ExchangePlan {
 public:
  ExchangePlan(const Descriptor& descriptor, const ReplicaLayout& layout, int rank, std::span<const HostItem> items);

  [[nodiscard]] Assembly assembly() const noexcept { return assembly_; }
  /// Elements of the result that `owner` makes. For gathers the result is R times as long as an input.
  [[nodiscard]] const std::vector<TensorRange>& slice(int owner) const {
    return slices_[static_cast<std::size_t>(owner)];
  }
  /// Whether `rank` sends a message to `owner` in the first step.
  [[nodiscard]] bool contributes(int rank, int owner) const;
  /// Whether `owner` sends its slice to `rank` in the second step.
  [[nodiscard]] bool distributes(int owner, int rank) const;
  /// Whether `rank` wants the result (its own slice at least).
  [[nodiscard]] bool wants_result(int rank) const;

  /// The blocks of the tree that `rank` computes from its own replicas.
  [[nodiscard]] const std::vector<Block>& blocks(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }
  /// The element type of `block`'s partial result of `item` in a message.
  [[nodiscard]] DType travel_dtype(const Block& block, const HostItem& item) const;
  /// Bytes that `rank` sends to `owner` in the first step, and that `owner` sends to each rank in the second.
  [[nodiscard]] std::size_t contribution_bytes(int rank, int owner) const;
  [[nodiscard]] std::size_t result_bytes(int owner) const;
  [[nodiscard]] DType result_dtype_of(const HostItem& item) const;

  /// The fold of the others' partial results and this rank's own leaves, all in id order.
  [[nodiscard]] std::span<const std::uint8_t> owner_merges() const noexcept { return owner_merges_; }
  /// The fold of the leaves of `blocks(rank)[index]`.
  [[nodiscard]] std::span<const std::uint8_t> block_merges(std::size_t index) const { return block_merges_[index]; }

 private:
  void cut(std::span<const HostItem> items);
  void plan_folds();

  Descriptor descriptor_;
  const ReplicaLayout& layout_;
  int rank_;
  std::span<const HostItem> items_;
  Assembly assembly_;
  bool one_step_ = false;  ///< small results have no second step
  std::vector<std::vector<TensorRange>> slices_;
  std::vector<std::vector<Block>> blocks_;
  std::vector<std::uint8_t> owner_merges_;
  std::vector<std::vector<std::uint8_t>> block_merges_;
};

}  // namespace lockstep::detail
