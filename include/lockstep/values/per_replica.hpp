// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One logical value with one component per local replica. `PerReplica` components may differ; `Mirrored` ones are
// equal.

#pragma once

#include <lockstep/base/export.hpp>

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep {
namespace detail {

/// Keeps `bool` components addressable, which std::vector<bool> would not.
template <class T>
struct Cell {
  T value;
};

/// Throws Error(invalid_argument) for a distributed value without components, or with a negative id.
LOCKSTEP_API void check_components(std::size_t count, int first_replica);
/// Throws Error(out_of_range) when `index` is not one of `count` components.
LOCKSTEP_API void check_component_index(int index, std::size_t count);
/// Throws Error(failed_precondition): a value of several replicas was used as one value.
[[noreturn]] LOCKSTEP_API void throw_not_one_value(std::size_t count);

}  // namespace detail

/// One component for each replica of this rank, in id order; components may differ.
/// There is no conversion to T: reduce it, take `experimental_local_results`, or, with one local replica, `value()`.
/// A value: copies copy the components. Thread-safety: as a vector; replicas may use different components at the same
/// time.
template <class T>
class PerReplica {
 public:
  using value_type = T;

  /// Component i belongs to replica `first_replica + i`. Throws Error(invalid_argument) for no component or a negative
  /// id.
  explicit PerReplica(std::vector<T> components, int first_replica = 0) : first_replica_(first_replica) {
    detail::check_components(components.size(), first_replica);
    cells_.reserve(components.size());
    for (auto&& component : components) cells_.push_back({T(std::move(component))});
  }
  /// As above, with `make(i)` for component i; for types that cannot be copied.
  template <std::invocable<int> Make>
  PerReplica(int count, int first_replica, Make&& make) : first_replica_(first_replica) {
    detail::check_components(static_cast<std::size_t>(count), first_replica);
    cells_.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) cells_.push_back({make(i)});
  }

  /// Number of components: the local replicas.
  [[nodiscard]] int size() const noexcept { return static_cast<int>(cells_.size()); }
  /// Global id of the replica that owns component 0.
  [[nodiscard]] int first_replica() const noexcept { return first_replica_; }

  /// Component `local`, counted from 0 on this rank. Throws Error(out_of_range).
  [[nodiscard]] T& component(int local) {
    detail::check_component_index(local, cells_.size());
    return cells_[static_cast<std::size_t>(local)].value;
  }
  [[nodiscard]] const T& component(int local) const {
    detail::check_component_index(local, cells_.size());
    return cells_[static_cast<std::size_t>(local)].value;
  }

  /// The only component. Throws Error(failed_precondition) when this rank has several replicas.
  [[nodiscard]] const T& value() const {
    if (cells_.size() != 1) detail::throw_not_one_value(cells_.size());
    return cells_.front().value;
  }

 private:
  std::vector<detail::Cell<T>> cells_;
  int first_replica_ = 0;
};

/// A value that is equal on all replicas, with one component per device that holds a copy.
/// Converts to T, since any copy stands for all. A value; thread-safety as PerReplica.
template <class T>
class Mirrored {
 public:
  using value_type = T;

  /// `components[i]` is the copy of local device i; the caller promises that they are equal.
  /// Throws Error(invalid_argument) for no component.
  explicit Mirrored(std::vector<T> components) {
    detail::check_components(components.size(), 0);
    cells_.reserve(components.size());
    for (auto&& component : components) cells_.push_back({T(std::move(component))});
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(cells_.size()); }
  /// Copy `local`; of a value that lives on one device, that one copy. Throws Error(out_of_range).
  [[nodiscard]] const T& component(int local) const {
    if (cells_.size() == 1) return cells_.front().value;
    detail::check_component_index(local, cells_.size());
    return cells_[static_cast<std::size_t>(local)].value;
  }
  [[nodiscard]] const T& value() const noexcept { return cells_.front().value; }
  // NOLINTNEXTLINE(google-explicit-constructor): a mirrored value may stand wherever the plain one may
  [[nodiscard]] operator const T&() const noexcept { return cells_.front().value; }

 private:
  std::vector<detail::Cell<T>> cells_;
};

}  // namespace lockstep
