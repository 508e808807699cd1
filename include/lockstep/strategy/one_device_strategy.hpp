// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <string_view>

namespace lockstep {

/// One replica on one device, a GPU too. The rules of contexts hold as for any strategy, so that code can be tried
/// before it is scaled. Needs no MPI.
class LOCKSTEP_API OneDeviceStrategy : public Strategy {
 public:
  /// Throws Error(invalid_argument) for a name that is no device, Error(unavailable) for a device that is not here.
  explicit OneDeviceStrategy(std::string_view device = "cpu:0");
  explicit OneDeviceStrategy(Device device);
};

}  // namespace lockstep
