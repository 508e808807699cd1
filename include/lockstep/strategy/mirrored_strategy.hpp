// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A strategy of one process, with one replica on each of its devices. Does not need MPI.
class LOCKSTEP_API MirroredStrategy : public Strategy {
 public:
  /// One replica on each GPU that this process can use, in the order of GPU numbers. If there is no GPU, one replica on
  /// cpu:0, and describe() gives the reason. If the step function computes in host memory, pass the names of CPUs to
  /// the next constructor. `cross_device_ops` is as below.
  MirroredStrategy();
  explicit MirroredStrategy(std::nullopt_t devices, std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr);
  explicit MirroredStrategy(std::shared_ptr<CrossDeviceOps> cross_device_ops);
  /// Replica i computes on `devices[i]`. `cpu:0`, `cpu:1`, ... are logical devices, whose replicas share the processors
  /// of the host. Logical devices of one GPU are `gpu:0`, `gpu:0#1`, ... If some devices are CPUs and some are GPUs,
  /// reductions go through host memory.
  /// `cross_device_ops` does all reductions of the strategy, including the aggregations of its variables; null means
  /// the default, AllReduceCrossDeviceOps. Several strategies may share one object if they do not run at the same time.
  /// Throws Error(invalid_argument) for an empty list, a name that is not a device, a device of another task than task
  /// 0, and a device that is named twice ("CPU:0" and "/device:cpu:0" are one device). Throws Error(unavailable) for a
  /// device that does not exist; the text lists all devices. Throws Error(unavailable) if the thread of a replica
  /// cannot be started; each replica but the first has one.
  explicit MirroredStrategy(const std::vector<std::string>& devices,
                            std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr);
  /// As above, for a list such as {"cpu:0", "cpu:1"}. Empty braces select the default devices, as std::nullopt does.
  explicit MirroredStrategy(std::initializer_list<std::string_view> devices,
                            std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr);
  explicit MirroredStrategy(std::vector<Device> devices, std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr);

 private:
  [[nodiscard]] bool do_reads_per_replica() const noexcept override { return true; }
};

}  // namespace lockstep
