// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>

#include <optional>
#include <span>
#include <string>

namespace lockstep {

/// Adds `values`, the values of all replicas in the order of replica ids, to `sum`, which is zero on entry. All views
/// have one shape and one dtype; for the mean of integers, the dtype is f64.
using AccumulationFunction = Function<void(std::span<const ConstTensorView> values, TensorView sum)>;

/// Copies all values to one device of rank 0, reduces them on this device, and copies the result to all outputs. For
/// devices that cannot exchange data directly, and for user-defined sums.
class LOCKSTEP_API ReductionToOneDevice : public CrossDeviceOps {
 public:
  /// The reduction runs on `reduce_to_device`, by default on the device of the first input. If `accumulation_fn` is not
  /// null, it computes sums. A mean is then this sum, divided once by the number of replicas. All other operations use
  /// the canonical tree. If `accumulation_fn` throws, the reduction throws the same exception. Throws
  /// Error(unavailable) if `reduce_to_device` does not exist.
  explicit ReductionToOneDevice(std::optional<Device> reduce_to_device = std::nullopt,
                                AccumulationFunction accumulation_fn = nullptr);

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool is_canonical() const noexcept override { return accumulation_fn_ == nullptr; }

 protected:
  void do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                       const CommunicationOptions& options) override;

 private:
  std::optional<Device> reduce_to_device_;
  AccumulationFunction accumulation_fn_;
};

}  // namespace lockstep
