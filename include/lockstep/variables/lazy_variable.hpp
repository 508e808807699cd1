// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <functional>
#include <mutex>
#include <optional>
#include <type_traits>

namespace lockstep {

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
    {
      const std::lock_guard lock(mutex_);
      if (variable_) return *variable_;
    }
    V made = std::invoke(make);  // without the lock, because the replicas wait for each other in `make`
    const std::lock_guard lock(mutex_);
    if (!variable_) variable_ = made;
    return *variable_;
  }
  /// Whether the variable has been created.
  [[nodiscard]] bool is_made() const {
    const std::lock_guard lock(mutex_);
    return variable_.has_value();
  }

 private:
  mutable std::mutex mutex_;  // guards variable_
  std::optional<V> variable_;
};

}  // namespace lockstep
