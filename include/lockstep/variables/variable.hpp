// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Variables: state with one copy per replica. Either every write keeps the copies equal, or reading aggregates the
// copies.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/detail/merge.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/tree.hpp>
#include <lockstep/variables/variable_component.hpp>
#include <lockstep/variables/variable_options.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <source_location>
#include <string>

namespace lockstep {

namespace detail {

/// Whether a value can be written to a variable.
template <class Value>
inline constexpr bool is_assignable = TensorLike<Value> || std::derived_from<Value, Variable>;

template <class Value>
constexpr void require_assignable() {
  static_assert(!is_distributed<Value>::value,
                "a PerReplica or Mirrored value cannot be written to a variable: pass it to run or update, and write "
                "the component that the function gets; or write the reduction of the value");
  static_assert(is_assignable<Value> || is_distributed<Value>::value,
                "only a number, a vector, array or span of numbers, a Tensor, a TensorView, another variable, or a "
                "type with a lockstep::tensor_traits specialisation can be written to a variable");
}

}  // namespace detail

/// A variable of any element type. Created by `Strategy::variable` and `make_variable`.
///
/// The context of a call decides which copies the call reads or writes:
///
/// | synchronization, aggregation | replica context: read; write            | cross-replica context: read; write      |
/// |------------------------------|-----------------------------------------|-----------------------------------------|
/// | on_write, none               | own copy; error                         | first copy; every copy                  |
/// | on_write, sum, mean or first | own copy; every copy gets the aggregate | first copy; every copy                  |
/// | on_read, none                | own copy; own copy                      | error; every copy                       |
/// | on_read, sum                 | own copy; own copy                      | sum; assign divides, add and sub: error |
/// | on_read, mean or first       | own copy; own copy                      | the aggregate; every copy               |
///
/// In update context, a call reads and writes the copy that is updated. Outside every scope, a call has the same effect
/// as in the cross-replica context of the variable's own strategy. A call that reads or writes an aggregate is
/// Collective: in replica context over all replicas, in cross-replica context over all ranks. In replica context the
/// value of each replica counts, even if the value is a plain number that is equal on all replicas. All other calls are
/// Local; in cross-replica context all ranks must make the same writes with the same values. The aggregation "first" is
/// only_first_replica: the value of the replica with global id 0. "First copy" means the first copy of this rank: if an
/// update made the copies differ, each rank reads its own first copy.
///
/// The table holds for the mirrored strategies with any number of replicas, including one. Therefore a program that is
/// correct with one replica is correct with several.
///
/// In two points, the documentation of tf.distribute differs from TensorFlow 2.21. First, if a replica writes an
/// on_write variable that has no aggregation, the documentation says that this is an error, but in 2.21 the copies
/// diverge; in lockstep this is an error. Second, the documentation says that assign_add and assign_sub to an on_read
/// variable in cross-replica context are always errors; in 2.21 and in lockstep, these calls are errors for sum only.
///
/// An assign to an on_read variable with sum divides the value over the copies of all replicas. With integers, the
/// first replicas get the remainder, and the sum of the copies is the value. A floating-point copy gets value /
/// replicas, as in TensorFlow: the quotient is rounded, so that the sum can differ from the value in its last bits,
/// unless the number of replicas is a power of two.
///
/// Each copy is on the device of its replica, unless VariableOptions::in_host_memory is set. If copies are on GPUs, an
/// assign that divides a value over the copies goes through host memory. All other operations, including the updates by
/// this library's optimizers, run on the GPU. The values may be on any device.
///
/// A variable of the default strategy or of a OneDeviceStrategy is plain: it has one copy, which every context reads
/// and writes, whatever the synchronization and the aggregation are. A plain on_read variable also supports view() and
/// scatter operations. A variable that is created outside every scope belongs to the default strategy; step functions
/// of other strategies can read it, but not write it. If any other variable is used in a scope or step of a strategy
/// other than its own, the call throws Error(failed_precondition). No strategy can create a bool variable with sum, or
/// an integer or bool variable with mean.
///
/// A Variable object is a shared handle, like a pointer: copies of the object refer to the same variable, compare equal
/// and have the same hash, and const functions may write the variable. A handle keeps alive the parts of the strategy
/// that the variable needs. Thread-safety: replicas may use their own copies concurrently; access to one copy is not
/// synchronized.
class LOCKSTEP_API Variable {
 public:
  [[nodiscard]] const std::string& name() const noexcept;
  /// The name of copy `local`: "v" for copy 0, "v/replica_1" for copy 1. Throws Error(out_of_range).
  [[nodiscard]] std::string component_name(int local) const;
  [[nodiscard]] DType dtype() const noexcept;
  [[nodiscard]] const Shape& shape() const noexcept;
  [[nodiscard]] std::int64_t element_count() const noexcept { return shape().element_count(); }
  /// on_write or on_read.
  [[nodiscard]] VariableSynchronization synchronization() const noexcept;
  [[nodiscard]] VariableAggregation aggregation() const noexcept;
  [[nodiscard]] bool trainable() const noexcept;
  /// The device of the copy that this context uses: in a step function the copy of this replica, in an update the copy
  /// that is updated, and in cross-replica context the first copy of this rank. Local. Throws
  /// Error(failed_precondition) in a scope or step of another strategy.
  [[nodiscard]] Device device() const;

  /// Number of copies on this rank. Local.
  [[nodiscard]] int component_count() const noexcept;
  /// Copy `local` of this rank, as a tensor that shares the memory of the copy. Independent of the context. Local.
  /// Throws Error(out_of_range).
  [[nodiscard]] VariableComponent component(int local) const;

  /// Returns a new tensor with the elements that are read in this context (see the table). In replica context, the
  /// tensor is on the device of the replica's copy; in cross-replica context, it is on the device of the first copy of
  /// this rank. Throws Error(invalid_argument), on all ranks, if the value is an aggregate but the variable has no
  /// aggregation.
  [[nodiscard]] Tensor read() const;
  /// As read, but writes to `target`, which may be on any device. Throws Error(invalid_argument) unless `target` has
  /// the variable's dtype and shape. Does not allocate if one copy is read.
  void read_to(TensorView target) const;
  /// The only element of the tensor that `read` returns, as a number: `float(v)`. Collective if the value is an
  /// aggregate. Throws as `read`, and as the conversion of a Tensor.
  template <Element T>
    requires(!std::same_as<T, bool>)
  [[nodiscard]] explicit operator T() const {
    return static_cast<T>(read());
  }
  /// A view of the copy that is read in this context; the view refers to the memory of the copy, which is aligned to 64
  /// bytes. Local. Throws Error(failed_precondition) if the value is an aggregate, that is, for an on_read variable in
  /// cross-replica context.
  [[nodiscard]] ConstTensorView view() const;
  /// A view of the copy that an update may write. Local. Throws Error(failed_precondition) outside of update context,
  /// unless the variable is plain and the call is outside every scope and step.
  [[nodiscard]] TensorView updatable_component() const;

  /// Writes `value` to the copies that the table above gives. `value` must have the variable's dtype and shape;
  /// otherwise throws Error(invalid_argument). If `value` is a variable, the elements that its `read` returns are
  /// written. If the call throws, no copy has been written, with one exception: if a GPU is out of memory, this rank
  /// throws std::bad_alloc, the other ranks throw Error(unavailable) with the text of this exception, and copies may
  /// have been written. Errors of the collective that a replica's call makes name the line `where`.
  template <class Value>
  const Variable& assign(const Value& value, std::source_location where = std::source_location::current()) const {
    return write_value(Write::assign, value, where);
  }
  /// As assign, but adds `value` to each copy: integers wrap, f16 and bf16 are added in f32 and rounded once. A NaN
  /// result is the canonical NaN.
  template <class Value>
  const Variable& assign_add(const Value& value, std::source_location where = std::source_location::current()) const {
    return write_value(Write::add, value, where);
  }
  template <class Value>
  const Variable& assign_sub(const Value& value, std::source_location where = std::source_location::current()) const {
    return write_value(Write::subtract, value, where);
  }

  /// Replaces rows of the variable by `row op slice`, in the order of the slices, in the copies that assign would
  /// write. If an index occurs several times, the row is rounded once. A NaN result is the canonical NaN. Results on
  /// GPUs have the same bits as results on the host. In replica context with sum or mean, the slices of all replicas
  /// are concatenated in the order of replica ids; for mean, the slices are divided by the number of replicas. In
  /// replica context with only_first_replica, only the slices of replica 0 are used. Replicas may have different
  /// numbers of slices. Slices may be on any device; indices are copied to the host and sorted there.
  /// Throws Error(unimplemented) for on_read variables, and in replica context for min, max and update with sum or
  /// mean. Plain variables support all scatter operations. Throws Error(invalid_argument) if the dtype, the row shape
  /// or the number of rows of `slices` differs from the variable's, if an integer is divided by zero, and for bool
  /// unless the operation is update.
  const Variable& scatter_add(const IndexedSlices& slices,
                              std::source_location where = std::source_location::current()) const {
    return scatter(Scatter::add, slices, where);
  }
  const Variable& scatter_sub(const IndexedSlices& slices,
                              std::source_location where = std::source_location::current()) const {
    return scatter(Scatter::sub, slices, where);
  }
  const Variable& scatter_mul(const IndexedSlices& slices,
                              std::source_location where = std::source_location::current()) const {
    return scatter(Scatter::mul, slices, where);
  }
  const Variable& scatter_div(const IndexedSlices& slices,
                              std::source_location where = std::source_location::current()) const {
    return scatter(Scatter::div, slices, where);
  }
  /// IEEE 754-2019 minimum and maximum: a NaN operand gives NaN, and -0 is less than +0.
  const Variable& scatter_min(const IndexedSlices& slices,
                              std::source_location where = std::source_location::current()) const {
    return scatter(Scatter::min, slices, where);
  }
  const Variable& scatter_max(const IndexedSlices& slices,
                              std::source_location where = std::source_location::current()) const {
    return scatter(Scatter::max, slices, where);
  }
  /// Replaces rows by slices; if an index occurs several times, the last slice is used.
  const Variable& scatter_update(const IndexedSlices& slices,
                                 std::source_location where = std::source_location::current()) const {
    return scatter(Scatter::update, slices, where);
  }

  /// Whether both handles refer to the same variable.
  friend bool operator==(const Variable& a, const Variable& b) noexcept { return a.state_ == b.state_; }
  /// Hash of the identity, consistent with ==.
  [[nodiscard]] std::size_t hash() const noexcept { return std::hash<const void*>{}(state_.get()); }

 protected:
  enum class Write : std::uint8_t { assign, add, subtract };
  const Variable& write(Write how, ConstTensorView value, const std::source_location& where) const;
  template <class Value>
  const Variable& write_value(Write how, const Value& value, const std::source_location& where) const {
    detail::require_assignable<Value>();
    if constexpr (std::derived_from<Value, Variable>) {
      return write(how, value.read().view(), where);
    } else if constexpr (TensorLike<Value>) {
      return write(how, tensor_traits<Value>::view(value), where);
    } else {
      return *this;
    }
  }

 private:
  friend struct VariableAccess;  // creates variables
  friend class VariableComponent;
  enum class Scatter : std::uint8_t { add, sub, mul, div, min, max, update };
  explicit Variable(std::shared_ptr<VariableState> state) noexcept;
  const Variable& scatter(Scatter how, const IndexedSlices& slices, const std::source_location& where) const;

  std::shared_ptr<VariableState> state_;
};

/// Prints this rank's copies by replica id; for a plain variable, prints the only copy. Local. Example:
/// `MirroredVariable:{0: <Variable 'v:0' shape=[] dtype=f32, value=1>, 1: <Variable 'v/replica_1:0' ...>}`.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const Variable& variable);

template <std::derived_from<Variable> V>
inline constexpr bool stays_whole<V> = true;

}  // namespace lockstep

/// @cond
template <std::derived_from<lockstep::Variable> V>
struct std::hash<V> {
  std::size_t operator()(const V& variable) const noexcept { return variable.hash(); }
};
/// @endcond
