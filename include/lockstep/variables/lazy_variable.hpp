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

/// A variable that is made when it is first needed, by library code that does not know where it is called. V is
/// Variable, MirroredVariable<T> or SyncOnReadVariable<T>.
///
///   LazyVariable<MirroredVariable<float>> weights_;
///   ... = weights_.get([] { return make_variable<float>(1.0F, {.name = "w"}); });
///
/// Pinned. Thread-safety: all replicas of a step may ask at the same time.
template <std::derived_from<Variable> V>
class LazyVariable {
 public:
  LazyVariable() = default;
  LazyVariable(const LazyVariable&) = delete;
  LazyVariable& operator=(const LazyVariable&) = delete;

  /// The variable; the first time it is what `make` returns. As collective as `make` the first time: in a step function
  /// all replicas ask. Local afterwards. Throws what `make` throws, and asks again then.
  template <class Make>
    requires std::same_as<std::invoke_result_t<Make&>, V>
  [[nodiscard]] V get(Make&& make) {
    {
      const std::lock_guard lock(mutex_);
      if (variable_) return *variable_;
    }
    V made = std::invoke(make);  // outside of the lock: the replicas meet in there
    const std::lock_guard lock(mutex_);
    if (!variable_) variable_ = made;
    return *variable_;
  }
  /// Whether the variable has been made.
  [[nodiscard]] bool is_made() const {
    const std::lock_guard lock(mutex_);
    return variable_.has_value();
  }

 private:
  mutable std::mutex mutex_;  // guards variable_
  std::optional<V> variable_;
};

}  // namespace lockstep
