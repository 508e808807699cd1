// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>

#include <span>
#include <string>

namespace lockstep {

/// The default: every replica gets the result by the communicator's all_reduce, in the communicator's order: canonical,
/// however values are packed, where that is; between GPUs by NCCL where it can. A value that lies on GPUs for some
/// replicas and in host memory for others is reduced in host memory.
class LOCKSTEP_API AllReduceCrossDeviceOps : public CrossDeviceOps {
 public:
  /// A batch is reduced by `num_packs` collectives of about the same number of elements, the last takes the rest; 0: by
  /// one for each value. CommunicationOptions::bytes_per_pack of a call goes before it. Throws Error(invalid_argument)
  /// for a negative number.
  explicit AllReduceCrossDeviceOps(int num_packs = 1);

  [[nodiscard]] std::string describe() const override;
  /// Where the communicator's order is: by default in host memory and on one GPU, not between GPUs.
  [[nodiscard]] bool is_canonical() const noexcept override { return true; }

 protected:
  void do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                       const CommunicationOptions& options) override;

 private:
  int num_packs_;
};

}  // namespace lockstep
