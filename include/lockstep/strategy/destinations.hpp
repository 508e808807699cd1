// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arguments of reduce_to and batch_reduce_to: the devices of the result, and values of different kinds.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

class StrategyExtended;

/// The devices that get the result of a reduction, one copy each. Converts implicitly from a device, the name of a
/// device, and the values that reside on devices:
///   - A device or its name: one copy on this device. The call that receives the Destinations parses the name.
///   - A Tensor: one copy on its device.
///   - A PerReplica or Mirrored value: one copy on the device of each of its components. A value that resides on one
///     device, such as the result of `reduce_to(op, value, "cpu:0")`, gives one copy there. If components are in host
///     memory, so are the copies, even if the strategy's devices are GPUs. Numbers and vectors are on the devices of
///     the replicas if these are CPUs, and otherwise in host memory.
///   - A variable: one copy on the device of each of its copies.
/// All ranks must pass the same destinations; see StrategyExtended::reduce_to.
class LOCKSTEP_API Destinations {
 public:
  // NOLINTBEGIN(google-explicit-constructor): the value, variable, device or name stands for itself
  template <class T>
  Destinations(const PerReplica<T>& value) : Destinations(components_of(value)) {}
  template <class T>
  Destinations(const Mirrored<T>& value) : Destinations(components_of(value)) {}
  Destinations(const Variable& variable);
  Destinations(const Tensor& value);
  Destinations(Device device);
  Destinations(std::string_view device);
  Destinations(const char* device);
  Destinations(const std::string& device);
  // NOLINTEND(google-explicit-constructor)
  Destinations(const Destinations&);
  Destinations(Destinations&&) noexcept;
  Destinations& operator=(const Destinations&);
  Destinations& operator=(Destinations&&) noexcept;
  ~Destinations();

 private:
  friend class StrategyExtended;

  /// The components of a distributed value.
  struct Components {
    int count = 0;
    std::vector<Device> devices = {};  // by component; empty for numbers and vectors
  };
  explicit Destinations(Components components);

  template <class Value>
  static Components components_of(const Value& value) {
    using T = typename Value::value_type;
    Components result{value.size()};
    if constexpr (std::same_as<T, IndexedSlices>) {
      for (int i = 0; i < value.size(); ++i) result.devices.push_back(value.component(i).values.device());
    } else if constexpr (std::derived_from<T, Tensor>) {
      for (int i = 0; i < value.size(); ++i) result.devices.push_back(value.component(i).device());
    } else if constexpr (std::same_as<T, TensorView> || std::same_as<T, ConstTensorView>) {
      for (int i = 0; i < value.size(); ++i) result.devices.push_back(value.component(i).device);
    }
    return result;
  }

  enum class Kind : std::uint8_t { device, name, variable, components };
  Kind kind_;
  Device device_;                     // of the kind device
  std::string name_;                  // of the kind name
  std::optional<Variable> variable_;  // of the kind variable
  Components components_;             // of the kind components
};

/// The destinations of one call, which the ranks compare as text.
class LOCKSTEP_API ComparedDestinations {
 public:
  ComparedDestinations();
  ComparedDestinations(const ComparedDestinations&) = delete;
  ComparedDestinations& operator=(const ComparedDestinations&) = delete;
  ~ComparedDestinations();

  /// Adds the only device of a destination. The numbers of GPUs differ between ranks, so that all GPUs are equal.
  void add_device(Device device);
  /// Adds a value or a variable, whose devices differ between ranks.
  void add_value();
  /// "destination cpu:1", "destinations 2 of cpu:1, 1 of a GPU"; empty if there are none.
  [[nodiscard]] std::string text() const;

 private:
  static constexpr int a_value = -1;
  static constexpr int a_gpu = -2;
  void add(int destination);

  std::vector<std::pair<int, int>> runs_;  // equal destinations one after the other (numbers of CPUs), and their number
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
