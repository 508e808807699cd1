// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions that create the operations on GPUs. The path of each `group` is GpuPath::nccl or GpuPath::one_device. The
// comment of a function says so if the function requires GpuPath::nccl.

#pragma once

#include "collectives/call/host_copies.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/gpu/group.hpp"

#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Whether NCCL can compute `op` of the items. The results may differ from the canonical results, because NCCL chooses
/// the order of additions or multiplications. False for min and max of floating-point numbers, because NCCL treats NaNs
/// and signed zeros differently. All ranks get the same answer.
[[nodiscard]] bool nccl_reduces(ReduceOp op, std::span<const HostItem> items, const Leaders& leaders);

/// An all_reduce in the order that NCCL chooses. Requires GpuPath::nccl, and that `nccl_reduces` is true for `items`.
[[nodiscard]] std::shared_ptr<Operation> make_nccl_all_reduce(const Descriptor& descriptor,
                                                              std::shared_ptr<GpuGroup> group,
                                                              std::vector<HostItem> items);

/// An all_reduce, reduce or reduce_scatter along the canonical tree. Results are bitwise equal to the results for
/// tensors in host memory.
[[nodiscard]] std::shared_ptr<Operation> make_fold_exchange(const Descriptor& descriptor,
                                                            std::shared_ptr<GpuGroup> group,
                                                            std::vector<HostItem> items);

/// A broadcast from the GPU of the root's first replica to all other GPUs.
[[nodiscard]] std::shared_ptr<Operation> make_gpu_broadcast(const Descriptor& descriptor,
                                                            std::shared_ptr<GpuGroup> group,
                                                            std::vector<HostItem> items);

/// Whether there are several GPUs, and each GPU has the same number of replicas.
[[nodiscard]] bool is_even(const Leaders& leaders);

/// An all_gather. Requires GpuPath::nccl, and that `is_even` is true for the leaders of `group`.
[[nodiscard]] std::shared_ptr<Operation> make_nccl_all_gather(const Descriptor& descriptor,
                                                              std::shared_ptr<GpuGroup> group,
                                                              std::vector<HostItem> items);

/// An all_gather, gather, scatter or all_to_all, with parts of equal or of different lengths.
[[nodiscard]] std::shared_ptr<Operation> make_part_moves(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                                         std::vector<HostItem> items);

/// A collective on GPU tensors through host memory. `copies` already contains the inputs. The host operation `inner`
/// reads and writes `copies`, and then the results are copied to the GPUs. Results are bitwise equal to the results for
/// tensors in host memory.
[[nodiscard]] std::shared_ptr<Operation> make_staged(const Descriptor& descriptor, std::shared_ptr<Operation> inner,
                                                     std::unique_ptr<HostCopies> copies);

}  // namespace lockstep::detail
