// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>

#include <span>
#include <string>

namespace lockstep {

/// The default CrossDeviceOps. Reduces by the communicator's all_reduce, in the order that the communicator's options
/// select. If this order is canonical, the division into packs does not change the result. Between GPUs, the
/// communicator uses NCCL if NCCL is available. If a value is on GPUs for some replicas and in host memory for other
/// replicas, the value is reduced in host memory.
class LOCKSTEP_API AllReduceCrossDeviceOps : public CrossDeviceOps {
 public:
  /// Divides a batch into at most `num_packs` packs of about the same number of elements, and reduces each pack by one
  /// collective; the last pack takes the remaining elements. With 0, each value is a pack. If a call sets
  /// CommunicationOptions::bytes_per_pack, this option determines the packs instead of `num_packs`. Throws
  /// Error(invalid_argument) if `num_packs` is negative.
  explicit AllReduceCrossDeviceOps(int num_packs = 1);

  [[nodiscard]] std::string describe() const override;
  /// True: sums have the bits of the canonical tree if the communicator's order is canonical. By default, the
  /// communicator's order is canonical in host memory and on one GPU, but not between GPUs.
  [[nodiscard]] bool is_canonical() const noexcept override { return true; }

 protected:
  void do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                       const CommunicationOptions& options) override;

 private:
  int num_packs_;
};

}  // namespace lockstep
