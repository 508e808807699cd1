// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions as values. Takes the place of std::function in public headers, because <functional> and the headers that it
// includes are a tenth of the cost of compiling a file that includes lockstep.hpp.

#pragma once

#include <lockstep/base/export.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace detail {

/// Throws Error(failed_precondition): a Function without a callable was called.
[[noreturn]] LOCKSTEP_API void throw_empty_function();

/// Calls `fn(args...)`; a pointer to a member is called as by std::invoke.
template <class F, class... Args>
constexpr decltype(auto) invoke(F&& fn, Args&&... args) {
  if constexpr (std::is_member_pointer_v<std::remove_cvref_t<F>>) {
    return std::apply(std::forward<F>(fn), std::forward_as_tuple(std::forward<Args>(args)...));
  } else {
    return std::forward<F>(fn)(std::forward<Args>(args)...);
  }
}

}  // namespace detail

template <class Signature>
class Function;

/// A callable `R(Args...)`, or none. Converts from every callable, such as a lambda or a std::function; an empty
/// std::function or a null pointer gives none. Copies refer to one callable, which is destroyed with the last of them.
/// Thread-safety: as the callable; different copies may be assigned at the same time.
template <class R, class... Args>
class Function<R(Args...)> {
 public:
  Function() noexcept = default;
  // NOLINTBEGIN(google-explicit-constructor): the callable stands for itself, as for std::function
  Function(std::nullptr_t /*none*/) noexcept {}
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Function> && std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
  Function(F&& fn) {
    using Callable = std::decay_t<F>;
    if constexpr (std::constructible_from<Callable, std::nullptr_t> &&
                  !std::is_function_v<std::remove_reference_t<F>>) {
      if (!fn) return;
    }
    // NOLINTNEXTLINE(modernize-make-shared): costs more to compile
    callable_ = std::shared_ptr<Callable>(new Callable(std::forward<F>(fn)));
    call_ = [](void* callable, Args... args) -> R {
      if constexpr (std::is_void_v<R>) {
        detail::invoke(*static_cast<Callable*>(callable), std::forward<Args>(args)...);
      } else {
        return detail::invoke(*static_cast<Callable*>(callable), std::forward<Args>(args)...);
      }
    };
  }
  // NOLINTEND(google-explicit-constructor)

  /// Calls the callable. Throws Error(failed_precondition) if there is none.
  R operator()(Args... args) const {
    if (callable_ == nullptr) detail::throw_empty_function();
    return call_(callable_.get(), std::forward<Args>(args)...);
  }
  /// Whether there is a callable.
  [[nodiscard]] explicit operator bool() const noexcept { return callable_ != nullptr; }
  [[nodiscard]] friend bool operator==(const Function& fn, std::nullptr_t) noexcept { return fn.callable_ == nullptr; }

 private:
  std::shared_ptr<void> callable_;
  R (*call_)(void* callable, Args... args) = nullptr;
};

}  // namespace lockstep
