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

/// How the parts of a result come together.
enum class Assembly : std::uint8_t {
  fold,         ///< every rank gives partial results
  concatenate,  ///< every rank owns its replicas' part already
  scatter,      ///< the root gives each owner its slice
};

class ExchangePlan {
 public:
  ExchangePlan(const Descriptor& descriptor, const ReplicaLayout& layout, int rank, std::span<const HostItem> items);

  [[nodiscard]] Assembly assembly() const noexcept { return assembly_; }
  /// Elements of the result that `owner` makes; in result space: for gathers that is R times the input.
  [[nodiscard]] const std::vector<TensorRange>& slice(int owner) const {
    return slices_[static_cast<std::size_t>(owner)];
  }
  /// Whether `rank` sends `owner` something in the first step.
  [[nodiscard]] bool contributes(int rank, int owner) const;
  /// Whether `owner`'s slice goes to `rank` in the second step.
  [[nodiscard]] bool distributes(int owner, int rank) const;
  /// Whether `rank` wants the result (its own slice at least).
  [[nodiscard]] bool wants_result(int rank) const;

  /// The tree nodes that `rank` computes of its own replicas.
  [[nodiscard]] const std::vector<Block>& blocks(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }
  /// The element type in which `block`'s value of `item` travels.
  [[nodiscard]] DType travel_dtype(const Block& block, const HostItem& item) const;
  /// Bytes that `rank` sends `owner` in the first step, and `owner` everybody in the second.
  [[nodiscard]] std::size_t contribution_bytes(int rank, int owner) const;
  [[nodiscard]] std::size_t result_bytes(int owner) const;
  [[nodiscard]] DType result_dtype_of(const HostItem& item) const;

  /// How this rank folds the others' partials and its own leaves, all in id order.
  [[nodiscard]] std::span<const std::uint8_t> owner_merges() const noexcept { return owner_merges_; }
  /// How this rank folds the leaves of `blocks(rank)[index]`.
  [[nodiscard]] std::span<const std::uint8_t> block_merges(std::size_t index) const { return block_merges_[index]; }

 private:
  void cut(std::span<const HostItem> items);
  void plan_folds();

  Descriptor descriptor_;
  const ReplicaLayout& layout_;
  int rank_;
  std::span<const HostItem> items_;
  Assembly assembly_;
  bool one_step_ = false;  ///< small: no second step
  std::vector<std::vector<TensorRange>> slices_;
  std::vector<std::vector<Block>> blocks_;
  std::vector<std::uint8_t> owner_merges_;
  std::vector<std::vector<std::uint8_t>> block_merges_;
};

}  // namespace lockstep::detail
