// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Predicts the path of an all_reduce, for `selected_schedule` and `simulate_all_reduce`.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/schedule_model.hpp>

#include "collectives/engine/carried_data.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "schedule/mixed_radix.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep::detail {

/// The ranks of a ModelledCluster. Each rank has one replica.
struct ModelledRanks {
  explicit ModelledRanks(const RankLayout& ranks);

  ReplicaLayout layout;
  std::vector<int> node_leaders;  ///< for every rank, the lowest rank of its node
};

/// For an all_reduce in canonical order of one f32 tensor of `bytes` bytes: the bytes of the tensor in a message of the
/// agreement. None if the data does not travel with the agreement.
[[nodiscard]] std::optional<std::int64_t> carried_bytes(const CarrySteps& steps, std::int64_t bytes);

/// Whether `make_node_reduce` uses the control blocks for one f32 tensor of `bytes` bytes per replica, if all buffers
/// are of the kind `buffers`.
[[nodiscard]] bool uses_control_blocks(const ReplicaLayout& layout, std::int64_t bytes, BufferKind buffers);

}  // namespace lockstep::detail
