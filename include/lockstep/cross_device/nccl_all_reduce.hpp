// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>

#include <span>
#include <string>

namespace lockstep {

/// The communicator's all_reduce, where that is NCCL's. AllReduceCrossDeviceOps, the default, uses NCCL too where it
/// can; this one demands it: a reduction of values on GPUs throws Error(unavailable), which says why, where ranks do
/// not reach each other's by NCCL. Replicas on one GPU are reduced there by one kernel, which needs none. What lies in
/// host memory, losses and counters, is reduced there; but nothing is on a machine without GPUs or NCCL.
class LOCKSTEP_API NcclAllReduce : public CrossDeviceOps {
 public:
  /// `num_packs` as AllReduceCrossDeviceOps'. With `order` canonical sums have the bits of the canonical tree: slices
  /// are exchanged, and added in that order on GPUs. Throws Error(invalid_argument) for a negative number.
  explicit NcclAllReduce(int num_packs = 1, Order order = Order::any);

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool is_canonical() const noexcept override { return order_ == Order::canonical; }

 protected:
  void do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                       const CommunicationOptions& options) override;

 private:
  int num_packs_;
  Order order_;
};

}  // namespace lockstep
