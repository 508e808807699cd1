// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Cuts a list of tensors for a reduction inside a node: into rounds that fit the staging memory, each round into one
// slice per owner. Pure arithmetic.

#pragma once

#include "collectives/call/host_item.hpp"
#include "schedule/partition.hpp"

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Elements of one tensor, and their places in staging memory.
struct StagedRange {
  TensorRange range;
  std::size_t input_offset = 0;   ///< bytes from the first input of a replica; the same for all replicas
  std::size_t result_offset = 0;  ///< bytes from the first result of the owner
};

struct NodeRound {
  std::vector<std::vector<StagedRange>> slices;  ///< by owner
  std::size_t input_bytes = 0;                   ///< bytes of one replica's inputs, padding included
  std::size_t most_result_bytes = 0;             ///< bytes of the results of the owner with most of them
};

/// A value of `round_bytes` that gives one round.
inline constexpr std::size_t unlimited_round_bytes = std::size_t{1} << 60;

/// Cuts `items` into rounds of about `round_bytes` bytes of input per replica (at least one round, all but the last of
/// them full), each into slices for `ranks` owners; for fewer owners if slices would be smaller than a page.
[[nodiscard]] std::vector<NodeRound> cut_rounds(std::span<const HostItem> items, ReduceOp op, int ranks,
                                                std::size_t round_bytes);

/// The same for a reduce_scatter: each owner has the same share of the part of each of its replicas, one range per item
/// and replica.
[[nodiscard]] std::vector<NodeRound> cut_scatter_rounds(std::span<const HostItem> items, const ReplicaLayout& layout,
                                                        std::size_t round_bytes);

}  // namespace lockstep::detail
