// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Variables of the current strategy: for library code that is called in scopes, in step functions, and outside of both.
// `LazyVariable` holds a variable that is made on first use.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/variables/typed_variable.hpp>
#include <lockstep/variables/variable.hpp>

#include <utility>

namespace lockstep {

/// `get_strategy().variable<T>(initial, options)`. In a scope: a variable of that strategy, Collective. In a step
/// function: one variable for all replicas, which all make the call. Outside: a plain variable, Local. Throws as
/// Strategy::variable.
template <Element T, class Initial>
[[nodiscard]] MirroredVariable<T> make_variable(Initial&& initial, const VariableOptions& options = {}) {
  return get_strategy().variable<T>(std::forward<Initial>(initial), options);
}

/// As above, synchronized on read.
template <Element T, class Initial>
[[nodiscard]] SyncOnReadVariable<T> make_sync_on_read_variable(Initial&& initial, const VariableOptions& options = {}) {
  return get_strategy().sync_on_read_variable<T>(std::forward<Initial>(initial), options);
}

/// As above, of either kind, with the dtype of the tensor.
[[nodiscard]] inline Variable make_variable(const Tensor& initial, const VariableOptions& options = {}) {
  return get_strategy().variable(initial, options);
}

}  // namespace lockstep
