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

/// The devices that get the result of a reduction: either one device, which gets the only copy; or those of a
/// distributed value or a variable, that is, all devices of the strategy, each of which gets a copy.
/// Converts implicitly from a device, a value, a variable, and the name of a device, which the receiving call parses.
/// Only the place of a value matters: if its first component is in host memory, so are the copies, even if the devices
/// are GPUs.
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

  /// The one device; nullopt for all devices of the strategy. Local. Throws Error(invalid_argument), which begins with
  /// `call`, for a name that is not a device.
  [[nodiscard]] std::optional<Device> one_device(std::string_view call) const;
  /// Whether the copies go to host memory, whatever the devices. Local.
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

/// Value of a batch_reduce_to with values of different kinds: dense and sparse values of all replicas, and single
/// values that all replicas share.
using ReducibleValue = std::variant<PerReplica<Tensor>, PerReplica<IndexedSlices>, Mirrored<Tensor>, Tensor, Variable>;

/// Result of batch_reduce_to for one value: Mirrored<IndexedSlices> for PerReplica<IndexedSlices>, Mirrored<Tensor> for
/// all others.
using ReducedValue = std::variant<Mirrored<Tensor>, Mirrored<IndexedSlices>>;

struct ReducePair {
  ReducibleValue value;
  Destinations destinations;
};

}  // namespace lockstep
