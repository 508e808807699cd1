// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// State that lives in one copy on each local replica: kept equal by every write, or brought together by reading.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/tensor.hpp>
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

/// A variable of any element type. Made by `Strategy::variable` and `make_variable`.
///
/// Which copies a call reads or writes depends on where it is made:
///
/// | synchronization, aggregation | replica: read, write                   | cross-replica: read, write            |
/// |------------------------------|----------------------------------------|---------------------------------------|
/// | on_write, none               | own copy; error                        | first copy; every copy                |
/// | on_write, sum, mean or first | own copy; every copy gets the aggregate | first copy; every copy               |
/// | on_read, none                | own copy; own copy                     | error; every copy                     |
/// | on_read, sum                 | own copy; own copy                     | sum; assign spreads, add and sub: error |
/// | on_read, mean or first       | own copy; own copy                     | the aggregate; every copy             |
///
/// In update context both are those of the updated copy. Outside every scope a variable is used as in its own
/// strategy's cross-replica context. What reads or writes an aggregate is Collective: over all replicas in replica
/// context (each replica's value counts, also a plain number that is equal on all), over all ranks in cross-replica
/// context. All other calls are Local; in cross-replica context all ranks make the same writes with the same values.
/// "First" is replica 0 of all ranks.
///
/// Where tf.distribute's pages and TensorFlow 2.21 differ: a replica's write without aggregation is an error, as the
/// pages say (2.21 lets the copies diverge); assign_add and assign_sub of an on_read variable in cross-replica context
/// are errors for sum only, as in 2.21 (the pages refuse them all). The sum is kept by an assign: of integers exactly,
/// the remainder going to the first replicas; of floating-point numbers each copy gets value / replicas.
///
/// Copies live on their replicas' devices. Those of GPUs are read, written, by the scatter operations too, aggregated,
/// added to (and stepped by the optimizers of this library) there; values may come from anywhere. Through a copy in
/// host memory, there and back, go assign_sub and the assign that spreads a sum.
///
/// A variable that is made outside every scope is plain: it has one copy, which every context reads, and which step
/// functions of other strategies cannot write; aggregations mean nothing for it. Every use in a scope or step of
/// another strategy than the variable's throws Error(failed_precondition).
///
/// Shared handle: copies refer to the same variable, compare equal and have one hash; there is no order. It keeps what
/// it needs of its strategy alive. Thread-safety: replicas may use their own copies at the same time; a copy itself is
/// guarded by nothing.
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

  /// Copies on this rank. Local.
  [[nodiscard]] int component_count() const noexcept;
  /// Copy `local` itself, sharing its memory, whatever the context. Local. Throws Error(out_of_range).
  [[nodiscard]] VariableComponent component(int local) const;

  /// A tensor with the elements that the context reads, on the device of the copy that it works on: in replica context
  /// the replica's, in cross-replica context the first of this rank. Throws Error(invalid_argument) where no
  /// aggregation says what they are, on all ranks.
  [[nodiscard]] Tensor read() const;
  /// The same, written to `target`, which has the variable's dtype and shape, else Error(invalid_argument), and may lie
  /// on any device, or in host memory. Allocates nothing where one copy is read.
  void read_to(TensorView target) const;
  /// The copy that the context reads; refers to the variable's memory, which is aligned to 64 bytes, on the device that
  /// the view names. Local. Throws Error(failed_precondition) where that is no copy: of an on_read variable in
  /// cross-replica context.
  [[nodiscard]] ConstTensorView view() const;
  /// The copy that an update may write. Local. Throws Error(failed_precondition) outside update.
  [[nodiscard]] TensorView updatable_component() const;

  /// Write by the table above. `value` has the variable's dtype and shape, else Error(invalid_argument); or it is a
  /// variable, which is read by its own rule. Nothing is written when something is wrong. Where a GPU has no memory
  /// left for it: a std::bad_alloc here, and Error(unavailable) with the text on the other ranks; some copies may have
  /// been written then.
  template <TensorLike Value>
  const Variable& assign(const Value& value) const {
    return write(Write::assign, tensor_traits<Value>::view(value));
  }
  /// As assign, with the sum of copy and value; integers wrap, f16 and bf16 are added in f32 and rounded once.
  template <TensorLike Value>
  const Variable& assign_add(const Value& value) const {
    return write(Write::add, tensor_traits<Value>::view(value));
  }
  template <TensorLike Value>
  const Variable& assign_sub(const Value& value) const {
    return write(Write::subtract, tensor_traits<Value>::view(value));
  }
  const Variable& assign(const Variable& value) const { return write(Write::assign, value.read().view()); }
  const Variable& assign_add(const Variable& value) const { return write(Write::add, value.read().view()); }
  const Variable& assign_sub(const Variable& value) const { return write(Write::subtract, value.read().view()); }

  /// Rows of the variable become `row op slice`, in the order of the slices; a row that is named several times is
  /// rounded once, a NaN to the canonical one. Written are the copies that assign writes; a GPU gives the bits of the
  /// host. In replica context the slices of all replicas are put one after the other, in replica order, and divided by
  /// the number of replicas for mean; their numbers of rows may differ. Slices may lie anywhere; their indices are
  /// looked at on the host, to which those on a GPU are copied, and sorted there. Throws Error(unimplemented) for
  /// on_read variables everywhere, and for min, max and update in replica context with sum or mean;
  /// Error(invalid_argument) for other dtypes, row shapes or numbers of rows than the variable's, for a division of
  /// integers by zero, and for bool, which has only update.
  const Variable& scatter_add(const IndexedSlices& slices) const { return scatter(Scatter::add, slices); }
  const Variable& scatter_sub(const IndexedSlices& slices) const { return scatter(Scatter::sub, slices); }
  const Variable& scatter_mul(const IndexedSlices& slices) const { return scatter(Scatter::mul, slices); }
  const Variable& scatter_div(const IndexedSlices& slices) const { return scatter(Scatter::div, slices); }
  /// The smaller; a NaN gives NaN, -0 is less than +0.
  const Variable& scatter_min(const IndexedSlices& slices) const { return scatter(Scatter::min, slices); }
  const Variable& scatter_max(const IndexedSlices& slices) const { return scatter(Scatter::max, slices); }
  /// The slice itself; the last one that names a row wins.
  const Variable& scatter_update(const IndexedSlices& slices) const { return scatter(Scatter::update, slices); }

  /// Whether both are the same variable.
  friend bool operator==(const Variable& a, const Variable& b) noexcept { return a.state_ == b.state_; }
  /// By identity, as ==.
  [[nodiscard]] std::size_t hash() const noexcept { return std::hash<const void*>{}(state_.get()); }

 protected:
  enum class Write : std::uint8_t { assign, add, subtract };
  const Variable& write(Write how, ConstTensorView value) const;

 private:
  friend struct VariableAccess;  // the library's own makers
  friend class VariableComponent;
  enum class Scatter : std::uint8_t { add, sub, mul, div, min, max, update };
  explicit Variable(std::shared_ptr<VariableState> state) noexcept;
  const Variable& scatter(Scatter how, const IndexedSlices& slices) const;

  std::shared_ptr<VariableState> state_;
};

/// `MirroredVariable:{0: <Variable 'v:0' shape=[] dtype=f32, value=1>, 1: <Variable 'v/replica_1:0' ...>}`: this rank's
/// copies by replica id; `SyncOnReadVariable:{...}`; of a plain variable its only copy. Local.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const Variable& variable);

template <std::derived_from<Variable> V>
inline constexpr bool stays_whole<V> = true;

}  // namespace lockstep

template <std::derived_from<lockstep::Variable> V>
struct std::hash<V> {
  std::size_t operator()(const V& variable) const noexcept { return variable.hash(); }
};
