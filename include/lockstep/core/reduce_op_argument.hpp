// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A reduction as the calls of a strategy take it: by enumerator, or by its name in tf.distribute.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace lockstep {

/// Made implicitly from a ReduceOp, or from text: "SUM" or "MEAN", in any case of letters. Those two are the operations
/// that have a name in tf.distribute; min, max, prod, band, bor and bxor are asked for by enumerator alone, so a
/// program that is given "max" by mistake is told so. An aggregation of variables gives the operation of that name.
/// The text is looked at by the call that it is given to, which throws Error(invalid_argument) for any other.
/// Refers to the text: an argument is passed on, never kept.
class ReduceOpArgument {
 public:
  // NOLINTBEGIN(google-explicit-constructor): it stands wherever a ReduceOp does
  constexpr ReduceOpArgument(ReduceOp op) noexcept : op_(op) {}
  constexpr ReduceOpArgument(std::string_view name) noexcept : name_(name), by_name_(true) {}
  constexpr ReduceOpArgument(const char* name) noexcept : ReduceOpArgument(std::string_view(name)) {}
  ReduceOpArgument(const std::string& name) noexcept : ReduceOpArgument(std::string_view(name)) {}
  /// An enumeration some of whose enumerators have an operation: VariableAggregation.
  template <class Enum>
    requires(std::is_enum_v<Enum> &&
             requires(Enum value) {
               { reduce_op_of(value) } -> std::same_as<ReduceOp>;
             })
  ReduceOpArgument(Enum value) noexcept : ReduceOpArgument(to_string(value)) {}
  // NOLINTEND(google-explicit-constructor)

  /// The operation. Local. Throws Error(invalid_argument), which begins with `call`, for text other than SUM and MEAN.
  [[nodiscard]] ReduceOp op(std::string_view call) const { return by_name_ ? named(call) : op_; }

 private:
  [[nodiscard]] LOCKSTEP_API ReduceOp named(std::string_view call) const;

  ReduceOp op_ = ReduceOp::sum;
  std::string_view name_;
  bool by_name_ = false;
};

}  // namespace lockstep
