// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The reduction argument of a strategy's calls: an enumerator, or a name as in tf.distribute.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace lockstep {

/// Converts implicitly from a ReduceOp, from text, and from a VariableAggregation. A VariableAggregation stands for the
/// operation of the same name. The text must be "SUM" or "MEAN", which are tf.distribute's two reductions; upper and
/// lower case are not distinguished. min, max, prod, band, bor and bxor can be given by enumerator only, so that a
/// program that passes "max" by mistake gets an error. The call that receives the argument checks the text, and throws
/// Error(invalid_argument) for any other text. Does not own the text: pass a ReduceOpArgument on, but do not store it.
class ReduceOpArgument {
 public:
  // NOLINTBEGIN(google-explicit-constructor): it is accepted wherever a ReduceOp is
  constexpr ReduceOpArgument(ReduceOp op) noexcept : op_(op) {}
  constexpr ReduceOpArgument(std::string_view name) noexcept : name_(name), by_name_(true) {}
  constexpr ReduceOpArgument(const char* name) noexcept : ReduceOpArgument(std::string_view(name)) {}
  ReduceOpArgument(const std::string& name) noexcept : ReduceOpArgument(std::string_view(name)) {}
  /// From an enumeration that has an overload of reduce_op_of, such as VariableAggregation.
  template <class Enum>
    requires(std::is_enum_v<Enum> &&
             requires(Enum value) {
               { reduce_op_of(value) } -> std::same_as<ReduceOp>;
             })
  ReduceOpArgument(Enum value) noexcept : ReduceOpArgument(to_string(value)) {}
  // NOLINTEND(google-explicit-constructor)

  /// The operation. Local. Throws Error(invalid_argument), whose text begins with `call`, for text other than SUM and
  /// MEAN.
  [[nodiscard]] ReduceOp op(std::string_view call) const { return by_name_ ? named(call) : op_; }

 private:
  [[nodiscard]] LOCKSTEP_API ReduceOp named(std::string_view call) const;

  ReduceOp op_ = ReduceOp::sum;
  std::string_view name_;
  bool by_name_ = false;
};

}  // namespace lockstep
