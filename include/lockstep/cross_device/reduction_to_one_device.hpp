// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>

namespace lockstep {

/// Adds the values of all replicas, in id order, into `sum`, which holds nothing yet: all have one shape and dtype. Of
/// a mean of integers they are f64.
using AccumulationFunction = std::function<void(std::span<const ConstTensorView> values, TensorView sum)>;

/// Copies all values to one device of the first rank, reduces them there, and copies the result to where it is wanted.
/// For devices that cannot reduce among themselves, and for sums of one's own.
class LOCKSTEP_API ReductionToOneDevice : public CrossDeviceOps {
 public:
  /// `reduce_to_device` is where the sum is made; std::nullopt: the device of the first input. With an
  /// `accumulation_fn` sum and mean give what it gives, divided once by the number of replicas for a mean; every other
  /// operation, and everything without one, is the canonical tree's. An exception of the function ends the call that
  /// made it. Throws Error(unavailable) for a device that is not here.
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
