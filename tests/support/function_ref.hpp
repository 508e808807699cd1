// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A reference to a function, for parameters: it takes a fraction of the time that std::function takes to compile.

#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace lockstep::test {

template <class Signature>
class FunctionRef;

/// Refers to a callable object, which must exist for as long as the reference is used. Copies refer to the same object.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Callable>
    requires(!std::same_as<std::remove_cvref_t<Callable>, FunctionRef>)
  FunctionRef(Callable&& callable) : call_(&call<std::remove_reference_t<Callable>>) {
    if constexpr (std::is_function_v<std::remove_reference_t<Callable>>) {
      callable_ = reinterpret_cast<void*>(&callable);
    } else {
      callable_ = const_cast<void*>(static_cast<const void*>(&callable));
    }
  }

  Result operator()(Args... args) const { return call_(callable_, static_cast<Args&&>(args)...); }

 private:
  template <class Callable>
  static Result call(void* callable, Args... args) {
    return static_cast<Result>((*reinterpret_cast<Callable*>(callable))(static_cast<Args&&>(args)...));
  }

  void* callable_;
  Result (*call_)(void*, Args...);
};

}  // namespace lockstep::test
