// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>

#include <span>
#include <string>

namespace lockstep {

/// Reduces values on GPUs by NCCL, and fails if that is impossible. AllReduceCrossDeviceOps, the default, uses NCCL if
/// it is available; this one throws Error(unavailable) with the reason if the GPUs of some ranks cannot exchange data
/// by NCCL. Replicas on one GPU are reduced there by one kernel, without NCCL. Values in host memory, such as losses
/// and counters, are reduced there. On a machine without GPUs or NCCL every call throws Error(unavailable).
class LOCKSTEP_API NcclAllReduce : public CrossDeviceOps {
 public:
  /// `num_packs` is as in AllReduceCrossDeviceOps. If `order` is canonical, sums have the bits of the canonical tree:
  /// slices are exchanged and added in that order on the GPUs. Throws Error(invalid_argument) if the number is
  /// negative.
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
