// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Creates the operations on GPUs. Every `group` has NCCL or a single GPU; some functions require more, as their
// comments say.

#pragma once

#include "collectives/call/host_copies.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/gpu/group.hpp"

#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Whether NCCL can compute `op` of the items, apart from the order of the additions. The bits of floats may differ.
/// False for min and max of floats, because NCCL treats NaNs and signed zeros differently. The same on all ranks.
[[nodiscard]] bool nccl_reduces(ReduceOp op, std::span<const HostItem> items, const Leaders& leaders);

/// An all_reduce in NCCL's own order. `group` has NCCL, and nccl_reduces `items`.
[[nodiscard]] std::shared_ptr<Operation> make_nccl_all_reduce(const Descriptor& descriptor,
                                                              std::shared_ptr<GpuGroup> group,
                                                              std::vector<HostItem> items);

/// An all_reduce, reduce or reduce_scatter along the canonical tree. Results are bitwise equal to those in host memory.
[[nodiscard]] std::shared_ptr<Operation> make_fold_exchange(const Descriptor& descriptor,
                                                            std::shared_ptr<GpuGroup> group,
                                                            std::vector<HostItem> items);

/// A broadcast from the root's first GPU to all others.
[[nodiscard]] std::shared_ptr<Operation> make_gpu_broadcast(const Descriptor& descriptor,
                                                            std::shared_ptr<GpuGroup> group,
                                                            std::vector<HostItem> items);

/// Whether there are several GPUs and all have the same number of replicas.
[[nodiscard]] bool is_even(const Leaders& leaders);

/// An all_gather. `group` has NCCL, and its leaders are even.
[[nodiscard]] std::shared_ptr<Operation> make_nccl_all_gather(const Descriptor& descriptor,
                                                              std::shared_ptr<GpuGroup> group,
                                                              std::vector<HostItem> items);

/// An all_gather, gather, scatter or all_to_all, with parts of equal or of different lengths.
[[nodiscard]] std::shared_ptr<Operation> make_part_moves(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                                         std::vector<HostItem> items);

/// Runs a collective on GPU tensors through host memory. The inputs are already in `copies`; the host operation `inner`
/// works there; then the results are copied to the devices. Results are bitwise equal to those of host tensors.
[[nodiscard]] std::shared_ptr<Operation> make_staged(const Descriptor& descriptor, std::shared_ptr<Operation> inner,
                                                     std::unique_ptr<HostCopies> copies);

}  // namespace lockstep::detail
