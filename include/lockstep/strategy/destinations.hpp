// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the result of a reduce_to is wanted.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The devices of a distributed value or a variable, which are all devices of the strategy and get a copy each; or one
/// device, which gets the only copy. Made implicitly from those; of a value nothing but its place is looked at. A name
/// is read by the call that it is given to.
class LOCKSTEP_API Destinations {
 public:
  // NOLINTBEGIN(google-explicit-constructor): the value, variable, device or name stands for itself
  template <class T>
  Destinations(const PerReplica<T>&) {}
  template <class T>
  Destinations(const Mirrored<T>&) {}
  Destinations(const Variable&) {}
  Destinations(Device device) : device_(device) {}
  Destinations(std::string_view device) : name_(device) {}
  Destinations(const char* device) : name_(device) {}
  Destinations(const std::string& device) : name_(device) {}
  // NOLINTEND(google-explicit-constructor)

  /// The one device; none: all devices of the strategy. Local. Throws Error(invalid_argument) for a name that is no
  /// device, which begins with `call`.
  [[nodiscard]] std::optional<Device> one_device(std::string_view call) const;

 private:
  std::optional<Device> device_;
  std::optional<std::string> name_;
};

}  // namespace lockstep
