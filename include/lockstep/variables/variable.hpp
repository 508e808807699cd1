// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Variables: state with one copy per replica. The copies are kept equal by every write, or aggregated by reading.

#pragma once

#include <lockstep/base/export.hpp>
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
#include <functional>
#include <memory>
#include <ostream>
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
/// The context of a call decides which copies it reads or writes:
///
/// | synchronization, aggregation | replica: read, write                   | cross-replica: read, write            |
/// |------------------------------|----------------------------------------|---------------------------------------|
/// | on_write, none               | own copy; error                        | first copy; every copy                |
/// | on_write, sum, mean or first | own copy; every copy gets the aggregate | first copy; every copy               |
/// | on_read, none                | own copy; own copy                     | error; every copy                     |
/// | on_read, sum                 | own copy; own copy                     | sum; assign spreads, add and sub: error |
/// | on_read, mean or first       | own copy; own copy                     | the aggregate; every copy             |
///
/// In update context a variable reads and writes the updated copy. Outside every scope it is used as in the
/// cross-replica context of its own strategy. A call that reads or writes an aggregate is Collective: over all replicas
/// in replica context (the value of each replica counts, also a plain number that is equal on all of them), over all
/// ranks in cross-replica context. All other calls are Local; in cross-replica context all ranks must make the same
/// writes with the same values. The "first" of an aggregation is replica 0 of all ranks; the first copy of an on_write
/// variable is that of this rank: if an update made copies differ, each rank reads its own.
///
/// The table holds for the mirrored strategies with any number of replicas, also with one: a program that is right with
/// one replica is right with several.
///
/// The documentation of tf.distribute and TensorFlow 2.21 differ in two points. A replica's write without an
/// aggregation is an error, as documented (in 2.21 the copies diverge). assign_add and assign_sub of an on_read
/// variable in cross-replica context are errors for sum only, as in 2.21 (documented: always). An assign to an on_read
/// variable with sum keeps the sum: floating-point copies get value / replicas; for integers the remainder goes to the
/// first replicas.
///
/// Each copy is on the device of its replica. Copies on GPUs are read, written (by scatter operations too), aggregated,
/// added to, and updated by this library's optimizers on the GPU; the values may be on any device. assign_sub, and an
/// assign that divides a sum over the copies, go through host memory.
///
/// A variable of the default strategy or of a OneDeviceStrategy is plain: it has one copy, which every context reads
/// and writes, whatever its synchronization and aggregation; view() and scatter operations are allowed for on_read,
/// too. One that is created outside every scope, by the default strategy, can be read, but not written, in step
/// functions of other strategies. Using any other variable in a scope or step of a strategy other than its own throws
/// Error(failed_precondition). A bool variable with sum, and an integer or bool one with mean, cannot be created with
/// any strategy.
///
/// Shared handle, as a pointer is: copies of the object refer to the same variable, compare equal and have the same
/// hash; const functions may write the variable. It keeps the parts of its strategy that it needs alive. Thread-safety:
/// replicas may use their own copies concurrently; access to one copy is not synchronized.
class LOCKSTEP_API Variable {
 public:
  [[nodiscard]] const std::string& name() const noexcept;
  /// "v" of the first copy, "v/replica_1" of the next. Throws Error(out_of_range).
  [[nodiscard]] std::string component_name(int local) const;
  [[nodiscard]] DType dtype() const noexcept;
  [[nodiscard]] const Shape& shape() const noexcept;
  [[nodiscard]] std::int64_t element_count() const noexcept { return shape().element_count(); }
  /// on_write or on_read.
  [[nodiscard]] VariableSynchronization synchronization() const noexcept;
  [[nodiscard]] VariableAggregation aggregation() const noexcept;
  [[nodiscard]] bool trainable() const noexcept;

  /// Number of copies on this rank. Local.
  [[nodiscard]] int component_count() const noexcept;
  /// Copy `local`; shares its memory. Independent of the context. Local. Throws Error(out_of_range).
  [[nodiscard]] VariableComponent component(int local) const;

  /// A new tensor with the elements that the context reads, on the device of the replica's copy in replica context, of
  /// the first copy of this rank in cross-replica context. Throws Error(invalid_argument), on all ranks, if the value
  /// is an aggregate but the variable has no aggregation.
  [[nodiscard]] Tensor read() const;
  /// As read, but writes to `target`, which may be on any device and must have the variable's dtype and shape, else
  /// Error(invalid_argument). Does not allocate if one copy is read.
  void read_to(TensorView target) const;
  /// A view of the copy that the context reads, in the variable's own memory (aligned to 64 bytes). Local. Throws
  /// Error(failed_precondition) if the value is an aggregate: for an on_read variable in cross-replica context.
  [[nodiscard]] ConstTensorView view() const;
  /// A view of the copy that an update may write. Local. Throws Error(failed_precondition) outside update.
  [[nodiscard]] TensorView updatable_component() const;

  /// Writes `value` by the table above. `value` must have the variable's dtype and shape, else Error(invalid_argument);
  /// it may be a variable, which is read by its own table. If the call throws, no copy has been written, with one
  /// exception: if a GPU is out of memory, this rank throws std::bad_alloc and the others Error(unavailable) with the
  /// text, and some copies may have been written.
  template <class Value>
  const Variable& assign(const Value& value) const {
    return write_value(Write::assign, value);
  }
  /// As assign, but adds `value` to the copy; integers wrap, f16 and bf16 are added in f32 and rounded once.
  template <class Value>
  const Variable& assign_add(const Value& value) const {
    return write_value(Write::add, value);
  }
  template <class Value>
  const Variable& assign_sub(const Value& value) const {
    return write_value(Write::subtract, value);
  }

  /// Replaces rows of the variable by `row op slice`, in the order of the slices, in the copies that assign would
  /// write. A row whose index occurs several times is rounded once; a NaN result is the canonical NaN. Results on GPUs
  /// have the bits of the host. In replica context the slices of all replicas are concatenated in the order of replica
  /// ids, and divided by the number of replicas for mean; replicas may have different numbers of slices. Slices may be
  /// on any device; indices are copied to the host and sorted there. Throws Error(unimplemented) for on_read variables,
  /// and for min, max and update in replica context with sum or mean, unless the variable is plain;
  /// Error(invalid_argument) if dtype, row shape or
  /// number of rows differ from the variable's, for the division of an integer by zero, and for bool with any operation
  /// but update.
  const Variable& scatter_add(const IndexedSlices& slices) const { return scatter(Scatter::add, slices); }
  const Variable& scatter_sub(const IndexedSlices& slices) const { return scatter(Scatter::sub, slices); }
  const Variable& scatter_mul(const IndexedSlices& slices) const { return scatter(Scatter::mul, slices); }
  const Variable& scatter_div(const IndexedSlices& slices) const { return scatter(Scatter::div, slices); }
  /// IEEE 754-2019 minimum and maximum: a NaN operand gives NaN, and -0 is less than +0.
  const Variable& scatter_min(const IndexedSlices& slices) const { return scatter(Scatter::min, slices); }
  const Variable& scatter_max(const IndexedSlices& slices) const { return scatter(Scatter::max, slices); }
  /// Replaces the row by the slice; if an index occurs several times, the last slice wins.
  const Variable& scatter_update(const IndexedSlices& slices) const { return scatter(Scatter::update, slices); }

  /// Whether both handles refer to the same variable.
  friend bool operator==(const Variable& a, const Variable& b) noexcept { return a.state_ == b.state_; }
  /// Hash of the identity, consistent with ==.
  [[nodiscard]] std::size_t hash() const noexcept { return std::hash<const void*>{}(state_.get()); }

 protected:
  enum class Write : std::uint8_t { assign, add, subtract };
  const Variable& write(Write how, ConstTensorView value) const;
  template <class Value>
  const Variable& write_value(Write how, const Value& value) const {
    detail::require_assignable<Value>();
    if constexpr (std::derived_from<Value, Variable>) {
      return write(how, value.read().view());
    } else if constexpr (TensorLike<Value>) {
      return write(how, tensor_traits<Value>::view(value));
    } else {
      return *this;
    }
  }

 private:
  friend struct VariableAccess;  // creates variables
  friend class VariableComponent;
  enum class Scatter : std::uint8_t { add, sub, mul, div, min, max, update };
  explicit Variable(std::shared_ptr<VariableState> state) noexcept;
  const Variable& scatter(Scatter how, const IndexedSlices& slices) const;

  std::shared_ptr<VariableState> state_;
};

/// Prints this rank's copies by replica id, as in
/// `MirroredVariable:{0: <Variable 'v:0' shape=[] dtype=f32, value=1>, 1: <Variable 'v/replica_1:0' ...>}` or
/// `SyncOnReadVariable:{...}`; for a plain variable its only copy. Local.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const Variable& variable);

template <std::derived_from<Variable> V>
inline constexpr bool stays_whole<V> = true;

}  // namespace lockstep

template <std::derived_from<lockstep::Variable> V>
struct std::hash<V> {
  std::size_t operator()(const V& variable) const noexcept { return variable.hash(); }
};
