// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>

#include <span>
#include <string>

namespace lockstep {

/// Reduces values on GPUs by NCCL. If the GPUs of some ranks cannot exchange data by NCCL, throws Error(unavailable)
/// with the reason; the default, AllReduceCrossDeviceOps, uses another path instead. Values of replicas on one GPU are
/// reduced on the GPU by one kernel, without NCCL. Values in host memory, such as losses and counters, are reduced in
/// host memory. On a machine without GPUs or without NCCL, every call throws Error(unavailable).
class LOCKSTEP_API NcclAllReduce : public CrossDeviceOps {
 public:
  /// `num_packs` is as in AllReduceCrossDeviceOps. If `order` is canonical, sums have the bits of the canonical tree:
  /// the GPUs exchange slices and add them along this tree. Throws Error(invalid_argument) if `num_packs` is negative.
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
