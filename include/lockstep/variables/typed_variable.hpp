// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Variables with a static element type.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/float16.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/nested_list.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {
namespace detail {

/// Throws Error(failed_precondition) unless `count` is 1.
LOCKSTEP_API void require_one_element(const std::string& name, std::int64_t count);
/// Throws Error(failed_precondition) if `device` is a GPU; the text names an alternative to `call`.
LOCKSTEP_API void require_on_host(const std::string& name, Device device, const char* call);
/// Throws Error(invalid_argument) if the elements of `variable` have another type than `dtype`, or if `variable` has
/// another synchronization than `synchronization`.
LOCKSTEP_API void require_type(const Variable& variable, DType dtype);
LOCKSTEP_API void require_synchronization(const Variable& variable, VariableSynchronization synchronization);

/// True if `Value` can be written to a variable of T. If not, the program does not compile, and the message gives the
/// reason.
template <class T, class Value>
constexpr bool can_be_assigned() {
  require_assignable<Value>();
  constexpr bool truncates = std::is_floating_point_v<Value> && std::is_integral_v<T>;
  static_assert(!truncates,
                "a floating-point number cannot be written to a variable of integers, since it would be truncated; "
                "round it, and cast it to the variable's element type");
  return is_assignable<Value> && !truncates;
}

}  // namespace detail

/// Typed access, common to MirroredVariable and SyncOnReadVariable. As in Variable, the context determines which copies
/// a call uses, and whether the call is Collective.
template <Element T>
class TypedVariable : public Variable {
 public:
  using element_type = T;

  /// The only element of the tensor that `read` returns in this context. Collective if the value is an aggregate.
  /// Throws Error(failed_precondition) if the number of elements is not 1.
  [[nodiscard]] T value() const {
    detail::require_one_element(name(), element_count());
    T result{};
    read_to({&result, dtype_of<T>, shape(), {}});
    return result;
  }
  /// The elements of the tensor that `read` returns in this context, in row-major order. Collective if the value is an
  /// aggregate.
  [[nodiscard]] std::vector<T> values() const
    requires(!std::same_as<T, bool>)
  {
    std::vector<T> result(static_cast<std::size_t>(element_count()));
    read_to({result.data(), dtype_of<T>, shape(), {}});
    return result;
  }
  /// The elements of the copy that is read in this context, as a span of the copy's memory. Local. The span is valid
  /// while the variable exists. Throws as view(); also throws Error(failed_precondition) if the copy is on a GPU.
  [[nodiscard]] std::span<const T> elements() const {
    const ConstTensorView copy = view();
    detail::require_on_host(name(), copy.device, "elements");
    return {static_cast<const T*>(copy.data), static_cast<std::size_t>(copy.element_count())};
  }
  /// The elements of the copy that an update may write. Throws as Variable::updatable_component; also throws
  /// Error(failed_precondition) if the copy is on a GPU, in which case Variable::updatable_component gives a view.
  [[nodiscard]] std::span<T> updatable_component() const {
    const TensorView copy = Variable::updatable_component();
    detail::require_on_host(name(), copy.device, "updatable_component");
    return {static_cast<T*>(copy.data), static_cast<std::size_t>(copy.element_count())};
  }

  /// As in Variable. Also, a number of another arithmetic type is converted to T; the conversion of a floating-point
  /// number to an integer does not compile.
  template <class Value>
  const Variable& assign(const Value& value, std::source_location where = std::source_location::current()) const {
    if constexpr (detail::can_be_assigned<T, Value>()) Variable::assign(as_elements(value), where);
    return *this;
  }
  template <class Value>
  const Variable& assign_add(const Value& value, std::source_location where = std::source_location::current()) const {
    if constexpr (detail::can_be_assigned<T, Value>()) Variable::assign_add(as_elements(value), where);
    return *this;
  }
  template <class Value>
  const Variable& assign_sub(const Value& value, std::source_location where = std::source_location::current()) const {
    if constexpr (detail::can_be_assigned<T, Value>()) Variable::assign_sub(as_elements(value), where);
    return *this;
  }
  /// A list in braces, as in `v.assign({{1, 2}, {3, 4}})`; see NestedList.
  const Variable& assign(const NestedList<T>& value,
                         std::source_location where = std::source_location::current()) const {
    return Variable::assign(value.tensor(), where);
  }
  const Variable& assign_add(const NestedList<T>& value,
                             std::source_location where = std::source_location::current()) const {
    return Variable::assign_add(value.tensor(), where);
  }
  const Variable& assign_sub(const NestedList<T>& value,
                             std::source_location where = std::source_location::current()) const {
    return Variable::assign_sub(value.tensor(), where);
  }

 protected:
  TypedVariable(const Variable& variable, VariableSynchronization synchronization) : Variable(variable) {
    detail::require_type(variable, dtype_of<T>);
    detail::require_synchronization(variable, synchronization);
  }

 private:
  template <class Value>
  static decltype(auto) as_elements(const Value& value) {
    if constexpr (!std::is_arithmetic_v<Value> || std::same_as<Value, T>) {
      return (value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<T>(value);
    } else {
      return T(static_cast<float>(value));
    }
  }
};

/// A variable that is synchronized on write: its copies are equal unless an update made them differ.
template <Element T>
class MirroredVariable : public TypedVariable<T> {
 public:
  /// Throws Error(invalid_argument) if the elements of `variable` are not T, or if it is synchronized on read.
  explicit MirroredVariable(const Variable& variable) : TypedVariable<T>(variable, VariableSynchronization::on_write) {}
};

/// A variable that is synchronized on read: each replica writes its own copy, and reading in cross-replica context
/// aggregates the copies. A write in a step function needs no collective, as is useful for metrics.
template <Element T>
class SyncOnReadVariable : public TypedVariable<T> {
 public:
  /// Throws Error(invalid_argument) if the elements of `variable` are not T, or if it is synchronized on write.
  explicit SyncOnReadVariable(const Variable& variable)
      : TypedVariable<T>(variable, VariableSynchronization::on_read) {}
};

}  // namespace lockstep
