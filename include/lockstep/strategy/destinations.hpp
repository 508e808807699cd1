// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arguments of reduce_to and batch_reduce_to: the devices of the result, and values of different kinds.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep {

/// The devices that get the result of a reduction. If a Destinations is made from a device, this device gets the only
/// copy. If a Destinations is made from a distributed value or a variable, each device of the strategy gets a copy.
/// Converts implicitly from a device, the name of a device, a distributed value, and a variable. The call that receives
/// the Destinations parses the name. If the first component of a distributed value is in host memory, the copies are in
/// host memory, even if the devices are GPUs.
class LOCKSTEP_API Destinations {
 public:
  // NOLINTBEGIN(google-explicit-constructor): the value, variable, device or name stands for itself
  template <class T>
  Destinations(const PerReplica<T>& value) : in_host_memory_(is_on_host(value.component(0))) {}
  template <class T>
  Destinations(const Mirrored<T>& value) : in_host_memory_(is_on_host(value.component(0))) {}
  Destinations(const Variable&) {}
  Destinations(Device device) : device_(device) {}
  Destinations(std::string_view device) : name_(device) {}
  Destinations(const char* device) : name_(device) {}
  Destinations(const std::string& device) : name_(device) {}
  // NOLINTEND(google-explicit-constructor)

  /// The only device; nullopt for all devices of the strategy. Local. Throws Error(invalid_argument), whose text begins
  /// with `call`, if the name is not the name of a device.
  [[nodiscard]] std::optional<Device> one_device(std::string_view call) const;
  /// Whether the copies are in host memory, even if the devices are GPUs. Local.
  [[nodiscard]] bool in_host_memory() const noexcept { return in_host_memory_; }

 private:
  template <class T>
  static bool is_on_host(const T& component) {
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

/// Value of a batch_reduce_to call with values of different kinds: dense or sparse values with one component per
/// replica, and single values that all replicas share.
using ReducibleValue = std::variant<PerReplica<Tensor>, PerReplica<IndexedSlices>, Mirrored<Tensor>, Tensor, Variable>;

/// Result of batch_reduce_to for one value: Mirrored<IndexedSlices> for PerReplica<IndexedSlices>, otherwise
/// Mirrored<Tensor>.
using ReducedValue = std::variant<Mirrored<Tensor>, Mirrored<IndexedSlices>>;

struct ReducePair {
  ReducibleValue value;
  Destinations destinations;
};

}  // namespace lockstep
