// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce, reduce and reduce_scatter on GPUs along the canonical tree, with the bits of the hosts.
//
// 1. Every GPU computes the nodes of the tree that lie wholly in its replicas. 2. Each owns a slice of the elements and
// gets the others' nodes for it, as bytes. 3. It folds them along the tree in one kernel. 4. The slices go to all who
// want the result. That is 2 (D-1)/D times the bytes of a GPU's nodes among D GPUs; 4 is not in a reduce_scatter,
// whose slices are the parts of a GPU's replicas. Where there is one GPU, one kernel does everything, without NCCL.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/gpu/group.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// `group` has NCCL, or one GPU.
[[nodiscard]] std::shared_ptr<Operation> make_fold_exchange(const Descriptor& descriptor,
                                                            std::shared_ptr<GpuGroup> group,
                                                            std::vector<HostItem> items);

}  // namespace lockstep::detail
