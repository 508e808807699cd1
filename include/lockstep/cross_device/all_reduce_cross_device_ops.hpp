// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>

#include <span>
#include <string>

namespace lockstep {

/// The default: reduces by the communicator's all_reduce and in the communicator's order. If that order is canonical,
/// packing does not change the result. Between GPUs NCCL is used if it is available. A value that is on GPUs for some
/// replicas and in host memory for others is reduced in host memory.
class LOCKSTEP_API AllReduceCrossDeviceOps : public CrossDeviceOps {
 public:
  /// A batch is reduced by `num_packs` collectives of about the same number of elements; the last one takes the rest.
  /// With 0, each value is a collective of its own. CommunicationOptions::bytes_per_pack of a call takes precedence.
  /// Throws Error(invalid_argument) if the number is negative.
  explicit AllReduceCrossDeviceOps(int num_packs = 1);

  [[nodiscard]] std::string describe() const override;
  /// True: sums are canonical whenever the communicator's order is. By default that order is canonical in host memory
  /// and on one GPU, but not between GPUs.
  [[nodiscard]] bool is_canonical() const noexcept override { return true; }

 protected:
  void do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                       const CommunicationOptions& options) override;

 private:
  int num_packs_;
};

}  // namespace lockstep
