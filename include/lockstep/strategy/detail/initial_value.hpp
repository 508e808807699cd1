// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Initial values of variables.

#pragma once

#include <lockstep/base/function.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/detail/reduced.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace lockstep {

/// An initial value: a tensor, or a function that returns a tensor. Owns neither.
struct VariableInitializer {
  const Tensor* value = nullptr;
  void* object = nullptr;
  Tensor (*make)(void* object) = nullptr;

  [[nodiscard]] Tensor operator()() const { return value != nullptr ? *value : make(object); }
};

namespace detail {

/// A function without arguments that returns a Tensor.
template <class F>
concept MakesTensor = std::invocable<F&> && std::same_as<std::invoke_result_t<F&>, Tensor>;

/// Returns `initial`, or the result of the function `initial`, as a tensor. A number is converted to T; the conversion
/// of a floating-point number to an integer does not compile.
template <Element T, class Initial>
Tensor initial_tensor(Initial&& initial) {
  using Plain = std::remove_cvref_t<Initial>;
  if constexpr (std::invocable<Initial&>) {
    return initial_tensor<T>(detail::invoke(initial));
  } else if constexpr (std::convertible_to<Initial, const Tensor&>) {
    return initial;
  } else if constexpr (std::derived_from<Plain, Variable>) {
    return initial.read();
  } else if constexpr (TensorLike<Plain> && !Element<Plain>) {
    const ConstTensorView view = tensor_traits<Plain>::view(std::as_const(initial));
    Tensor result(view.dtype, view.shape);
    result.copy_from(view);
    return result;
  } else if constexpr (std::convertible_to<Initial, T> || std::constructible_from<T, Initial>) {
    static_assert(!std::is_floating_point_v<Plain> || !std::is_integral_v<T>,
                  "a variable of integers cannot be initialised with a floating-point number, which would be "
                  "truncated; round it, and cast it to the variable's element type");
    return Tensor::scalar(static_cast<T>(initial));
  } else {
    static_assert(
        never<Plain>,
        "a variable is initialised with a number, a vector, an array, a Tensor, or a function that returns one");
    return {};
  }
}

/// Calls `create(initializer)`. If `initial` is a function, it is called when `create` calls the initializer. Numbers
/// are converted to T; tensors keep their dtype.
template <Element T, class Initial, class Create>
auto with_initializer(Initial&& initial, const Create& create) {
  if constexpr (std::invocable<Initial&>) {
    auto call = [&initial] { return initial_tensor<T>(initial); };
    return create(
        VariableInitializer{nullptr, &call, [](void* object) { return (*static_cast<decltype(call)*>(object))(); }});
  } else {
    const Tensor value = initial_tensor<T>(std::forward<Initial>(initial));
    return create(VariableInitializer{.value = &value});
  }
}

}  // namespace detail
}  // namespace lockstep
