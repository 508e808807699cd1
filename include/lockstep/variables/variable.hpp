// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// State that is kept equal on all replicas (tf.distribute's ON_WRITE variables): one copy per local replica, read where
// you are, written on all copies.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/reduced.hpp>
#include <lockstep/values/tree.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep {

/// What a write in replica context does with the replicas' values before it is applied to every copy.
enum class VariableAggregation : std::uint8_t {
  none,                ///< such a write is an error
  sum,                 ///< the sum over all replicas
  mean,                ///< the mean over all replicas; not for integers and bool
  only_first_replica,  ///< the value of replica 0 of all ranks
};

/// "none", "sum", ... Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(VariableAggregation aggregation) noexcept;

struct VariableOptions {
  /// Shown in errors; copies are `name`, `name/replica_1`, ... with the number of the local replica.
  std::string name = "Variable";
  VariableAggregation aggregation = VariableAggregation::none;
  /// For optimizers and the like; the library itself does not look at it.
  bool trainable = true;
};

namespace detail {
/// Throws Error(failed_precondition) unless `count` is 1.
LOCKSTEP_API void require_one_element(const std::string& name, std::int64_t count);
}  // namespace detail

/// A mirrored variable of any element type. Made by `Strategy::variable`.
///
/// | context        | read                  | assign, assign_add, assign_sub |
/// |----------------|-----------------------|---------------------------------------------------------------------------------|
/// | replica        | this replica's copy   | all copies, with the aggregate of all replicas' values; all replicas must
/// call  | | cross-replica  | the first copy        | all copies of this rank; all ranks make the same call with the
/// same value       | | update         | the updated copy      | that copy only |
///
/// Outside every scope a variable is read and written as in its own strategy's cross-replica context. One made outside
/// every scope is plain: it has one copy, which every context reads, and which step functions of other strategies
/// cannot write. Shared handle: copies refer to the same variable and compare equal. It keeps what it needs of its
/// strategy alive. Thread-safety: replicas may use their own copies at the same time; a copy itself is guarded by
/// nothing.
class LOCKSTEP_API Variable {
 public:
  [[nodiscard]] const std::string& name() const noexcept;
  /// "v" of the first copy, "v/replica_1" of the next. Throws Error(out_of_range).
  [[nodiscard]] std::string component_name(int local) const;
  [[nodiscard]] DType dtype() const noexcept;
  [[nodiscard]] const Shape& shape() const noexcept;
  [[nodiscard]] std::int64_t element_count() const noexcept { return shape().element_count(); }
  [[nodiscard]] VariableAggregation aggregation() const noexcept;
  [[nodiscard]] bool trainable() const noexcept;

  /// Copies on this rank. Local.
  [[nodiscard]] int component_count() const noexcept;
  /// Copy `local` itself, sharing its memory, whatever the context. Local. Throws Error(out_of_range).
  [[nodiscard]] Tensor component(int local) const;

  /// The copy that the context reads; refers to the variable's memory, which is aligned to 64 bytes. Local.
  /// Throws Error(failed_precondition) in a scope or step of another strategy.
  [[nodiscard]] ConstTensorView view() const;
  /// A tensor with the elements of that copy. Local. Throws as view().
  [[nodiscard]] Tensor read() const;
  /// The copy that an update may write. Local. Throws Error(failed_precondition) outside update.
  [[nodiscard]] TensorView updatable_component() const;

  /// Writes by the table above, all replicas in replica context, else local. `value` has the variable's dtype and
  /// shape, else Error(invalid_argument); nothing is written then. In replica context without aggregation:
  /// Error(invalid_argument).
  template <TensorLike Value>
  void assign(const Value& value) const {
    write(Write::assign, tensor_traits<Value>::view(value));
  }
  /// As assign, with the sum of copy and value; integers wrap, f16 and bf16 are added in f32 and rounded once.
  template <TensorLike Value>
  void assign_add(const Value& value) const {
    write(Write::add, tensor_traits<Value>::view(value));
  }
  template <TensorLike Value>
  void assign_sub(const Value& value) const {
    write(Write::subtract, tensor_traits<Value>::view(value));
  }

  /// Whether both are the same variable.
  friend bool operator==(const Variable& a, const Variable& b) noexcept { return a.state_ == b.state_; }

 protected:
  enum class Write : std::uint8_t { assign, add, subtract };
  void write(Write how, ConstTensorView value) const;

 private:
  friend struct VariableAccess;  // the library's own makers
  struct State;
  explicit Variable(std::shared_ptr<State> state) noexcept;

  std::shared_ptr<State> state_;
};

/// A mirrored variable whose elements are T. Everything is as for Variable, with typed access.
template <Element T>
class MirroredVariable : public Variable {
 public:
  using element_type = T;

  /// Throws Error(invalid_argument) when the elements of `variable` are not T.
  explicit MirroredVariable(const Variable& variable) : Variable(variable) {
    static_cast<void>(std::as_const(*this).component(0).template elements<T>());
  }

  /// The elements of the copy that the context reads. Local. The span is good as long as the variable lives.
  [[nodiscard]] std::span<const T> elements() const {
    const ConstTensorView copy = view();
    return {static_cast<const T*>(copy.data), static_cast<std::size_t>(copy.element_count())};
  }
  /// The value of a variable with one element. Throws Error(failed_precondition) when it has another number of them.
  [[nodiscard]] T value() const {
    require_one_element();
    return elements().front();
  }
  /// The elements of the copy that an update may write. Throws Error(failed_precondition) outside update.
  [[nodiscard]] std::span<T> updatable_component() const {
    const TensorView copy = Variable::updatable_component();
    return {static_cast<T*>(copy.data), static_cast<std::size_t>(copy.element_count())};
  }

  /// As Variable's; a number of another arithmetic type is converted, as in an assignment to a T.
  template <TensorLike Value>
  void assign(const Value& value) const {
    Variable::assign(as_elements(value));
  }
  template <TensorLike Value>
  void assign_add(const Value& value) const {
    Variable::assign_add(as_elements(value));
  }
  template <TensorLike Value>
  void assign_sub(const Value& value) const {
    Variable::assign_sub(as_elements(value));
  }

 private:
  template <class Value>
  static decltype(auto) as_elements(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value> && std::is_arithmetic_v<T> && !std::same_as<Value, T>) {
      return static_cast<T>(value);
    } else {
      return (value);
    }
  }
  void require_one_element() const { detail::require_one_element(name(), element_count()); }
};

template <>
inline constexpr bool stays_whole<Variable> = true;
template <Element T>
inline constexpr bool stays_whole<MirroredVariable<T>> = true;

}  // namespace lockstep
