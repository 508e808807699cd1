// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A broadcast on GPUs: from the root's first GPU to all others by NCCL, short tensors in packs.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/gpu/group.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// `group` has NCCL, or one GPU.
[[nodiscard]] std::shared_ptr<Operation> make_gpu_broadcast(const Descriptor& descriptor,
                                                            std::shared_ptr<GpuGroup> group,
                                                            std::vector<HostItem> items);

}  // namespace lockstep::detail
