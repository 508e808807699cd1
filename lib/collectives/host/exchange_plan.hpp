// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Computes the slices, the sizes of the messages and the folds of one direct exchange. This file moves no data.

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

/// Alignment, in bytes, of the arrays inside a message.
inline constexpr std::size_t array_alignment = 64;

/// Bytes of `count` elements in a message, including padding.
[[nodiscard]] constexpr std::size_t padded_bytes(std::int64_t count, DType dtype) noexcept {
  return (static_cast<std::size_t>(count) * size_of(dtype) + array_alignment - 1) / array_alignment * array_alignment;
}

/// How an owner obtains its slice of the result.
enum class Assembly : std::uint8_t {
  fold,         ///< the owner folds partial results of every rank
  concatenate,  ///< the owner has the parts of its replicas already
  scatter,      ///< the owner receives the slice from the root
};

class ExchangePlan {
 public:
  ExchangePlan(const Descriptor& descriptor, const ReplicaLayout& layout, int rank, std::span<const HostItem> items);

  [[nodiscard]] Assembly assembly() const noexcept { return assembly_; }
  /// The elements of the result that `owner` provides. In a gather, the result consists of the inputs of all replicas.
  [[nodiscard]] const std::vector<TensorRange>& slice(int owner) const {
    return slices_[static_cast<std::size_t>(owner)];
  }
  /// Whether `rank` sends a message to `owner` in the first step.
  [[nodiscard]] bool contributes(int rank, int owner) const;
  /// Whether `owner` sends its slice to `rank` in the second step.
  [[nodiscard]] bool distributes(int owner, int rank) const;
  /// Whether `rank` needs the result, or at least its own slice of the result.
  [[nodiscard]] bool wants_result(int rank) const;

  /// The blocks of the canonical tree that `rank` computes from its own replicas.
  [[nodiscard]] const std::vector<Block>& blocks(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }
  /// The element type that the partial result of `block` for `item` has in a message.
  [[nodiscard]] DType travel_dtype(const Block& block, const HostItem& item) const;
  /// Bytes of the message that `rank` sends to `owner` in the first step.
  [[nodiscard]] std::size_t contribution_bytes(int rank, int owner) const;
  /// Bytes of the message that `owner` sends to each rank in the second step.
  [[nodiscard]] std::size_t result_bytes(int owner) const;
  [[nodiscard]] DType result_dtype_of(const HostItem& item) const;

  /// The fold by which this rank makes its slice. Its inputs, in the order of replica ids, are the partial results of
  /// the other ranks and the inputs of this rank's replicas.
  [[nodiscard]] std::span<const std::uint8_t> owner_merges() const noexcept { return owner_merges_; }
  /// The fold by which this rank makes the partial result of its block `index`.
  [[nodiscard]] std::span<const std::uint8_t> block_merges(std::size_t index) const { return block_merges_[index]; }

 private:
  void cut(std::span<const HostItem> items);
  void plan_folds();

  Descriptor descriptor_;
  const ReplicaLayout& layout_;
  int rank_;
  std::span<const HostItem> items_;
  Assembly assembly_;
  bool one_step_ = false;  ///< whether the result is so small that there is no second step
  std::vector<std::vector<TensorRange>> slices_;
  std::vector<std::vector<Block>> blocks_;
  std::vector<std::uint8_t> owner_merges_;
  std::vector<std::vector<std::uint8_t>> block_merges_;
};

}  // namespace lockstep::detail
