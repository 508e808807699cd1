// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the result of a reduce_to is wanted.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The devices of a distributed value or a variable, which are all devices of the strategy and get a copy each; or one
/// device, which gets the only copy. Made implicitly from those; of a value nothing but its place is looked at: copies
/// for one whose first component lies in host memory are made there too, also where the devices are GPUs. A name is
/// read by the call that it is given to.
class LOCKSTEP_API Destinations {
 public:
  // NOLINTBEGIN(google-explicit-constructor): the value, variable, device or name stands for itself
  template <class T>
  Destinations(const PerReplica<T>& value) : in_host_memory_(lies_on_host(value.component(0))) {}
  template <class T>
  Destinations(const Mirrored<T>& value) : in_host_memory_(lies_on_host(value.component(0))) {}
  Destinations(const Variable&) {}
  Destinations(Device device) : device_(device) {}
  Destinations(std::string_view device) : name_(device) {}
  Destinations(const char* device) : name_(device) {}
  Destinations(const std::string& device) : name_(device) {}
  // NOLINTEND(google-explicit-constructor)

  /// The one device; none: all devices of the strategy. Local. Throws Error(invalid_argument) for a name that is no
  /// device, which begins with `call`.
  [[nodiscard]] std::optional<Device> one_device(std::string_view call) const;
  /// Whether the copies are for host memory, whatever the devices. Local.
  [[nodiscard]] bool in_host_memory() const noexcept { return in_host_memory_; }

 private:
  template <class T>
  static bool lies_on_host(const T& component) {
    if constexpr (std::same_as<T, IndexedSlices>) {
      return component.values.device().kind == DeviceKind::cpu;
    } else if constexpr (TensorLike<T>) {
      return ConstTensorView(tensor_traits<T>::view(component)).device.kind == DeviceKind::cpu;
    } else {
      return true;
    }
  }

  std::optional<Device> device_;
  std::optional<std::string> name_;
  bool in_host_memory_ = false;
};

}  // namespace lockstep
