// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <string_view>

namespace lockstep {

/// A strategy with one replica on one device, a CPU or a GPU. The rules for scopes and step functions are those of all
/// strategies, so a program can be tested before it is scaled. Does not need MPI.
class LOCKSTEP_API OneDeviceStrategy : public Strategy {
 public:
  /// Throws Error(invalid_argument) for a name that is not a device, Error(unavailable) for a device that does not
  /// exist.
  explicit OneDeviceStrategy(std::string_view device = "cpu:0");
  explicit OneDeviceStrategy(Device device);
};

}  // namespace lockstep
