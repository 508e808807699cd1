// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The path of an all_reduce, for `selected_schedule` and `simulate_all_reduce`.

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

/// The ranks of a ModelledCluster, which have one replica each.
struct ModelledRanks {
  explicit ModelledRanks(const RankLayout& ranks);

  ReplicaLayout layout;
  std::vector<int> node_leaders;  ///< for every rank, the lowest rank of its node
};

/// The bytes of the vector in the messages of the agreement if the data of an all_reduce in canonical order of one f32
/// tensor of `bytes` bytes travels there.
[[nodiscard]] std::optional<std::int64_t> carried_bytes(const CarrySteps& steps, std::int64_t bytes);

/// The rules of `make_node_reduce` for one f32 tensor of `bytes` bytes per replica whose buffers are all of one kind.
[[nodiscard]] bool uses_control_blocks(const ReplicaLayout& layout, std::int64_t bytes, BufferKind buffers);

}  // namespace lockstep::detail
