// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all_gather on GPUs that have as many replicas each: NCCL gathers what the GPUs hold, short tensors in packs, and a
// kernel puts it in the order of the replicas where NCCL's is another.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/gpu/group.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// Whether all GPUs have as many replicas, and there are several.
[[nodiscard]] bool is_even(const Leaders& leaders);

/// `group` has NCCL, and its leaders are even.
[[nodiscard]] std::shared_ptr<Operation> make_nccl_all_gather(const Descriptor& descriptor,
                                                              std::shared_ptr<GpuGroup> group,
                                                              std::vector<HostItem> items);

}  // namespace lockstep::detail
