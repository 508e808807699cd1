// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Creation of variables by the current strategy, for library code that is called in scopes, in step functions, and
// outside of both. See also LazyVariable, which creates a variable at its first use.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/device/nested_list.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/variables/typed_variable.hpp>
#include <lockstep/variables/variable.hpp>

#include <utility>

namespace lockstep {

/// Returns `get_strategy().variable<T>(initial, options)`. In a scope, creates a variable of the scope's strategy;
/// Collective. In a step function, creates one variable for all replicas; all replicas must make the call. Outside of
/// both, creates a plain variable; Local. Throws as Strategy::variable.
template <Element T, class Initial>
[[nodiscard]] MirroredVariable<T> make_variable(Initial&& initial, const VariableOptions& options = {}) {
  return get_strategy().variable<T>(std::forward<Initial>(initial), options);
}

/// As above, but the variable is synchronized on read.
template <Element T, class Initial>
[[nodiscard]] SyncOnReadVariable<T> make_sync_on_read_variable(Initial&& initial, const VariableOptions& options = {}) {
  return get_strategy().sync_on_read_variable<T>(std::forward<Initial>(initial), options);
}

/// As above, from a list in braces, as in `make_variable<float>({1, 2, 3})`; see NestedList.
template <Element T>
[[nodiscard]] MirroredVariable<T> make_variable(const NestedList<T>& initial, const VariableOptions& options = {}) {
  return get_strategy().variable<T>(initial, options);
}
template <Element T>
[[nodiscard]] SyncOnReadVariable<T> make_sync_on_read_variable(const NestedList<T>& initial,
                                                               const VariableOptions& options = {}) {
  return get_strategy().sync_on_read_variable<T>(initial, options);
}

/// As above, but `options` select the synchronization, and the variable has the dtype of the tensor.
[[nodiscard]] inline Variable make_variable(const Tensor& initial, const VariableOptions& options = {}) {
  return get_strategy().variable(initial, options);
}

}  // namespace lockstep
