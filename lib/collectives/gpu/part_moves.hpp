// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What moves parts from replica to replica on GPUs: all_gather, gather, scatter and all_to_all, with parts of one
// length and of several.
//
// Each GPU sends each other one what that needs: short parts in one pack, long ones from where they lie to where they
// are wanted; all in one group of NCCL's sends and receives. Inside a GPU parts are copied. (P-1)/P of the inputs'
// bytes leave a GPU in an all_to_all, P-1 times its inputs in an all_gather (an even one is all_gather.hpp's).

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/gpu/group.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// `group` has NCCL, or one GPU.
[[nodiscard]] std::shared_ptr<Operation> make_part_moves(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                                         std::vector<HostItem> items);

}  // namespace lockstep::detail
