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
  /// One replica on each GPU that this process can use, in the order of their numbers; on cpu:0 where there is none,
  /// and describe() then says why. A step function that computes in host memory names its devices.
  MirroredStrategy();
  /// Replica i computes on `devices[i]`. Several `cpu:i` are logical devices: replicas that share the host's
  /// processors; several replicas on one GPU are `gpu:0`, `gpu:0#1`, ... Where there are hosts and GPUs among them,
  /// what they reduce goes through host memory. Whatever the strategy reduces goes through `cross_device_ops`, its
  /// variables' aggregations included; null: the default, AllReduceCrossDeviceOps. Several strategies may share one, if
  /// they do not run at the same time. Throws Error(invalid_argument) for an empty list, a name that is no device, and
  /// a device that is named twice ("CPU:0" and "/device:cpu:0" are one); Error(unavailable) for a device that is not
  /// here, which says what is.
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
