// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all_reduce in NCCL's own order. A GPU's replicas are folded there by one kernel, NCCL reduces among the GPUs, and
// one kernel writes all results of a GPU; where every GPU has one replica NCCL goes from input to output.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/gpu/group.hpp"

#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Whether NCCL's reduction gives what `op` means, up to the order: not the bits of floats, and of a minimum or maximum
/// of floats not the NaNs and signed zeros. The same on all ranks.
[[nodiscard]] bool nccl_reduces(ReduceOp op, std::span<const HostItem> items, const Leaders& leaders);

/// `group` has NCCL, and nccl_reduces `items`.
[[nodiscard]] std::shared_ptr<Operation> make_nccl_all_reduce(const Descriptor& descriptor,
                                                              std::shared_ptr<GpuGroup> group,
                                                              std::vector<HostItem> items);

}  // namespace lockstep::detail
