// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Divides a list of tensors for an operation inside a node. The list is cut into rounds that fit the staging memory,
// and each round into slices. The owner of a slice is the rank that reduces the slice. This file moves no data.

#pragma once

#include "collectives/call/host_item.hpp"
#include "schedule/partition.hpp"

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A range of elements of one tensor, and its offsets in the staging memory of one round.
struct StagedRange {
  TensorRange range;
  std::size_t input_offset = 0;   ///< in bytes, from the start of a replica's inputs; equal for all replicas
  std::size_t result_offset = 0;  ///< in bytes, from the start of the owner's results
};

struct NodeRound {
  std::vector<std::vector<StagedRange>> slices;  ///< ranges of each owner's slice
  std::size_t input_bytes = 0;                   ///< bytes of the inputs of one replica, including padding
  std::size_t most_result_bytes = 0;             ///< largest number of bytes of the results of one owner
};

/// A value of `round_bytes` for which the result is a single round.
inline constexpr std::size_t unlimited_round_bytes = std::size_t{1} << 60;

/// Cuts `items` into rounds with about `round_bytes` bytes of input per replica, and each round into slices for `ranks`
/// owners. Returns at least one round; all rounds except the last are full. If slices for all ranks would be smaller
/// than 2 KiB, or 128 bytes if there are more than 8 ranks, the round has fewer owners, and the slices of the other
/// ranks are empty.
[[nodiscard]] std::vector<NodeRound> cut_rounds(std::span<const HostItem> items, ReduceOp op, int ranks,
                                                std::size_t round_bytes);

/// Cuts the `items` of a reduce_scatter into rounds with about `round_bytes` bytes of input per replica. In each round,
/// the slice of an owner has one range per item and replica of the owner. The ranges of one item cover the same
/// elements of the part of every replica.
[[nodiscard]] std::vector<NodeRound> cut_scatter_rounds(std::span<const HostItem> items, const ReplicaLayout& layout,
                                                        std::size_t round_bytes);

}  // namespace lockstep::detail
