// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace lockstep::detail {

/// Values with ascending numbers, most of which are removed in the order in which they were added. Each function takes
/// constant time, if few numbers are left out. Not thread-safe.
template <class T>
class NumberedQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return values_.empty(); }
  /// The number of the oldest value, and one more than that of the newest one. Equal if the queue is empty.
  [[nodiscard]] std::int64_t begin() const noexcept { return first_; }
  [[nodiscard]] std::int64_t end() const noexcept { return first_ + static_cast<std::int64_t>(values_.size()); }
  /// The value `number`; null if there is none. It stays at its address until it is removed.
  [[nodiscard]] T* find(std::int64_t number) noexcept {
    if (number < begin() || number >= end()) return nullptr;
    std::optional<T>& value = values_[static_cast<std::size_t>(number - first_)];
    return value ? &*value : nullptr;
  }
  [[nodiscard]] const T* find(std::int64_t number) const noexcept {
    return const_cast<NumberedQueue*>(this)->find(number);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  /// `number` is not less than `end`. If an allocation fails, throws std::bad_alloc and changes no value.
  T& add(std::int64_t number, T value) {
    if (values_.empty()) first_ = number;
    while (end() < number) values_.emplace_back();
    return *values_.emplace_back(std::move(value));
  }
  /// Removes and returns the value `number`, which exists.
  T take(std::int64_t number) noexcept {
    std::optional<T>& value = values_[static_cast<std::size_t>(number - first_)];
    T taken = std::move(*value);
    value.reset();
    for (; !values_.empty() && !values_.front(); ++first_) values_.pop_front();
    while (!values_.empty() && !values_.back()) values_.pop_back();
    return taken;
  }

 private:
  std::int64_t first_ = 0;
  std::deque<std::optional<T>>
      values_;  // the first one has a value; so has the last one, unless an allocation failed in `add`
};

}  // namespace lockstep::detail
