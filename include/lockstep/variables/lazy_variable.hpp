// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/base/owned.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <type_traits>

namespace lockstep {
namespace detail {

/// A variable that is set once. Thread-safety: any thread.
class LOCKSTEP_API VariableSlot {
 public:
  VariableSlot();
  VariableSlot(const VariableSlot&) = delete;
  VariableSlot& operator=(const VariableSlot&) = delete;
  ~VariableSlot();

  /// Null if the variable has not been set.
  [[nodiscard]] const Variable* find() const;
  /// Sets the variable unless it has been set. Returns the variable.
  const Variable& set(const Variable& variable);

 private:
  struct State;
  Owned<State> state_;
};

}  // namespace detail

/// A variable that is created at its first use, for library code that does not know in which context it is called. V is
/// Variable, MirroredVariable<T> or SyncOnReadVariable<T>.
///
///   LazyVariable<MirroredVariable<float>> weights_;
///   ... = weights_.get([] { return make_variable<float>(1.0F, {.name = "w"}); });
///
/// Neither copyable nor movable. Thread-safety: all replicas of a step may call `get` at the same time.
template <std::derived_from<Variable> V>
class LazyVariable {
 public:
  LazyVariable() = default;
  LazyVariable(const LazyVariable&) = delete;
  LazyVariable& operator=(const LazyVariable&) = delete;

  /// Returns the variable. The first call creates the variable by `make`. If `make` is Collective, the first call is
  /// Collective, and in a step function all replicas must make the first call; later calls are Local. If `make` throws,
  /// the exception is rethrown, and the next call tries again.
  template <class Make>
    requires std::same_as<std::invoke_result_t<Make&>, V>
  [[nodiscard]] V get(Make&& make) {
    if (const Variable* const variable = variable_.find()) return V(*variable);
    return V(variable_.set(detail::invoke(make)));  // `make` runs without a lock: the replicas wait for each other
  }
  /// Whether the variable has been created.
  [[nodiscard]] bool is_made() const { return variable_.find() != nullptr; }

 private:
  detail::VariableSlot variable_;
};

}  // namespace lockstep
