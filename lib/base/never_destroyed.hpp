// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

namespace lockstep::detail {

/// A static object that threads may use while the process ends: it is never destroyed. It lies in static memory, so
/// that its first use allocates nothing and a function that may not throw can be the first one.
template <class T>
class NeverDestroyed {
 public:
  NeverDestroyed() noexcept(std::is_nothrow_default_constructible_v<T>) : value_(new(memory_) T) {}
  NeverDestroyed(const NeverDestroyed&) = delete;
  NeverDestroyed& operator=(const NeverDestroyed&) = delete;

  [[nodiscard]] T& operator*() noexcept { return *value_; }
  [[nodiscard]] T* operator->() noexcept { return value_; }

 private:
  alignas(T) std::byte memory_[sizeof(T)];
  T* value_;
};

}  // namespace lockstep::detail
