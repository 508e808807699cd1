// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One process, one replica on each of its devices. Needs no MPI.
class LOCKSTEP_API MirroredStrategy : public Strategy {
 public:
  /// One replica on each GPU that this process can use, in the order of their numbers. Without a GPU: one on cpu:0, and
  /// describe() gives the reason. If the step function computes in host memory, name the devices.
  MirroredStrategy();
  /// Replica i computes on `devices[i]`. Several `cpu:i` are logical devices: replicas that share the processors of the
  /// host; several replicas on one GPU are `gpu:0`, `gpu:0#1`, ... With CPUs and GPUs among the devices, reductions go
  /// through host memory.
  /// `cross_device_ops` does all reductions of the strategy, the aggregations of its variables included; null for the
  /// default, AllReduceCrossDeviceOps. Several strategies may share one, if they do not run at the same time.
  /// Throws Error(invalid_argument) for an empty list, a name that is not a device, and a device that is named twice
  /// ("CPU:0" and "/device:cpu:0" are the same); Error(unavailable) for a device that does not exist, with a list of
  /// those that do.
  explicit MirroredStrategy(const std::vector<std::string>& devices,
                            std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr);
  /// As above: MirroredStrategy({"cpu:0", "cpu:1"}).
  explicit MirroredStrategy(std::initializer_list<std::string_view> devices,
                            std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr);
  explicit MirroredStrategy(std::vector<Device> devices, std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr);

 private:
  [[nodiscard]] bool do_reads_per_replica() const noexcept override { return true; }
};

}  // namespace lockstep
