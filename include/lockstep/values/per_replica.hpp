// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Logical values with one component per local replica. The components of a PerReplica may differ; the components of a
// Mirrored are equal.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/values/detail/tree.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {
namespace detail {

/// Throws Error(invalid_argument) if `count` is 0 or `first_replica` is negative.
LOCKSTEP_API void check_components(std::size_t count, int first_replica);
/// Throws Error(out_of_range) unless `index` is at least 0 and less than `count`.
LOCKSTEP_API void check_component_index(int index, std::size_t count);
/// Throws Error(failed_precondition): a value of several replicas was used as one value.
[[noreturn]] LOCKSTEP_API void throw_not_one_value(std::size_t count);

/// The components of one value. There is at least one component. The first component is stored in the object, so that a
/// value with one local replica needs no allocation.
template <class T>
class Components {
 public:
  /// `make(i)` returns component i; there are `count` components.
  template <std::invocable<int> Make>
  Components(int count, const Make& make) : first_{make(0)} {
    if (count > 1) rest_.reserve(static_cast<std::size_t>(count) - 1);
    for (int i = 1; i < count; ++i) rest_.push_back({make(i)});
  }

  [[nodiscard]] std::size_t size() const noexcept { return 1 + rest_.size(); }
  [[nodiscard]] T& front() noexcept { return first_.value; }
  [[nodiscard]] const T& front() const noexcept { return first_.value; }
  /// Throws Error(out_of_range).
  [[nodiscard]] T& at(int index) {
    if (index == 0) return first_.value;
    check_component_index(index, size());
    return rest_[static_cast<std::size_t>(index) - 1].value;
  }
  [[nodiscard]] const T& at(int index) const {
    if (index == 0) return first_.value;
    check_component_index(index, size());
    return rest_[static_cast<std::size_t>(index) - 1].value;
  }

 private:
  Cell<T> first_;
  std::vector<Cell<T>> rest_;
};

/// Moves the elements of `components` to a Components. Throws Error(invalid_argument) if there are none.
template <class T>
Components<T> components_of(std::vector<T>&& components) {
  check_components(components.size(), 0);
  return Components<T>(static_cast<int>(components.size()),
                       [&components](int i) { return T(std::move(components[static_cast<std::size_t>(i)])); });
}

/// Returns `count`. Throws Error(invalid_argument) if `count` is less than 1 or `first_replica` is negative.
inline int checked_count(int count, int first_replica) {
  check_components(count > 0 ? static_cast<std::size_t>(count) : 0, first_replica);
  return count;
}

}  // namespace detail

/// One component for each replica of this rank, in the order of replica ids; components may differ. Does not convert to
/// T: reduce the value, call `experimental_local_results`, or, with one local replica, call `value()`. Value type:
/// copying copies the components. Thread-safety: as a vector; different replicas may use their components at the same
/// time.
template <class T>
class PerReplica {
 public:
  using value_type = T;

  /// Component i belongs to replica `first_replica + i`. Throws Error(invalid_argument) if there is no component or
  /// `first_replica` is negative. Functions that take a PerReplica throw Error(invalid_argument) unless it has one
  /// component for each replica of this rank. On rank p of a strategy, `first_replica` must be
  /// `communicator().layout().first(p)`.
  explicit PerReplica(std::vector<T> components, int first_replica = 0)
      : components_(detail::components_of(std::move(components))), first_replica_(first_replica) {
    detail::checked_count(size(), first_replica);
  }
  /// As above, but `make(i)` returns component i. For types that cannot be copied.
  template <std::invocable<int> Make>
  PerReplica(int count, int first_replica, Make&& make)
      : components_(detail::checked_count(count, first_replica), make), first_replica_(first_replica) {}

  /// Number of components, which is the number of local replicas.
  [[nodiscard]] int size() const noexcept { return static_cast<int>(components_.size()); }
  /// Global id of the replica that owns component 0.
  [[nodiscard]] int first_replica() const noexcept { return first_replica_; }

  /// Component `local`, counted from 0 on this rank. Throws Error(out_of_range).
  [[nodiscard]] T& component(int local) { return components_.at(local); }
  [[nodiscard]] const T& component(int local) const { return components_.at(local); }

  /// The only component. Throws Error(failed_precondition) if there are several components. For a temporary, as in
  /// `strategy.run(fn).value()`, the component is moved.
  [[nodiscard]] const T& value() const& {
    if (components_.size() != 1) detail::throw_not_one_value(components_.size());
    return components_.front();
  }
  [[nodiscard]] T value() && {
    if (components_.size() != 1) detail::throw_not_one_value(components_.size());
    return std::move(components_.front());
  }

 private:
  detail::Components<T> components_;
  int first_replica_ = 0;
};

/// A value that is equal on all replicas, with one component per device that holds a copy. Converts to T, because all
/// copies are equal. Value type. Thread-safety: as PerReplica.
template <class T>
class Mirrored {
 public:
  using value_type = T;

  /// `components[i]` is the copy of local device i. The caller guarantees that all copies are equal. Throws
  /// Error(invalid_argument) if there is no component.
  explicit Mirrored(std::vector<T> components) : components_(detail::components_of(std::move(components))) {}
  /// As above, but `make(i)` returns copy i of `count` copies. For types that cannot be copied.
  template <std::invocable<int> Make>
  Mirrored(int count, Make&& make) : components_(detail::checked_count(count, 0), make) {}

  [[nodiscard]] int size() const noexcept { return static_cast<int>(components_.size()); }
  /// Copy `local`. If there is only one copy, returns that copy for every `local`. Throws Error(out_of_range).
  [[nodiscard]] const T& component(int local) const {
    return components_.size() == 1 ? components_.front() : components_.at(local);
  }
  [[nodiscard]] const T& value() const noexcept { return components_.front(); }
  // NOLINTNEXTLINE(google-explicit-constructor): a mirrored value can be used in place of a plain one
  [[nodiscard]] operator const T&() const noexcept { return components_.front(); }

 private:
  detail::Components<T> components_;
};

namespace detail {
template <class T>
inline constexpr bool is_distributed_values = false;
template <class T>
inline constexpr bool is_distributed_values<PerReplica<T>> = true;
template <class T>
inline constexpr bool is_distributed_values<Mirrored<T>> = true;
}  // namespace detail

/// A value with one component per local replica: PerReplica or Mirrored. For functions that accept both.
template <class T>
concept DistributedValues = detail::is_distributed_values<std::remove_cvref_t<T>>;

}  // namespace lockstep
