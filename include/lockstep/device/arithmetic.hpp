// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on tensors, element by element, as in `x * 2.0F + y`.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace lockstep {

/// A number of any element type except bool, as an operand of arithmetic on tensors.
class NumberOperand {
 public:
  template <Element T>
    requires(!std::same_as<T, bool>)
  // NOLINTNEXTLINE(google-explicit-constructor): a number is an operand
  NumberOperand(T number) noexcept : dtype_(dtype_of<T>) {
    std::memcpy(bytes_.data(), &number, sizeof(T));
  }
  [[nodiscard]] ConstTensorView view() const noexcept { return {bytes_.data(), dtype_, Shape{}}; }

 private:
  alignas(8) std::array<std::byte, 8> bytes_{};
  DType dtype_;
};

/// Each operator returns a new tensor with the results, on the device of the operands. The operands are two tensors of
/// the same dtype and shape on the same device, or a tensor and a number, which is combined with every element. A
/// number is converted to the dtype of the tensor: to floating point by rounding; to integers only from an integer of
/// the dtype's range. Tensors are not broadcast; `float(t)` gives the number of a tensor with one element.
///
/// f16 and bf16 are computed in f32, and rounded once. Integers wrap; their quotients are truncated towards zero. A NaN
/// result is the canonical NaN. Results on GPUs have the same bits as results on the host. Local; a GPU computes in the
/// order of its stream. Throws Error(invalid_argument) for operands that differ in dtype, shape or device, for a number
/// that cannot be converted, for bool, and if an integer is divided by zero; throws as the constructor of Tensor.
/// Cost: one pass over the operands, and the allocation of the result. If integers on a GPU are divided by a tensor,
/// the divisors are copied to the host and checked, which waits for the GPU's stream.
[[nodiscard]] LOCKSTEP_API Tensor operator+(const Tensor& left, const Tensor& right);
[[nodiscard]] LOCKSTEP_API Tensor operator-(const Tensor& left, const Tensor& right);
[[nodiscard]] LOCKSTEP_API Tensor operator*(const Tensor& left, const Tensor& right);
[[nodiscard]] LOCKSTEP_API Tensor operator/(const Tensor& left, const Tensor& right);
[[nodiscard]] LOCKSTEP_API Tensor operator+(const Tensor& left, const NumberOperand& right);
[[nodiscard]] LOCKSTEP_API Tensor operator-(const Tensor& left, const NumberOperand& right);
[[nodiscard]] LOCKSTEP_API Tensor operator*(const Tensor& left, const NumberOperand& right);
[[nodiscard]] LOCKSTEP_API Tensor operator/(const Tensor& left, const NumberOperand& right);
[[nodiscard]] LOCKSTEP_API Tensor operator+(const NumberOperand& left, const Tensor& right);
[[nodiscard]] LOCKSTEP_API Tensor operator-(const NumberOperand& left, const Tensor& right);
[[nodiscard]] LOCKSTEP_API Tensor operator*(const NumberOperand& left, const Tensor& right);
[[nodiscard]] LOCKSTEP_API Tensor operator/(const NumberOperand& left, const Tensor& right);
/// The elements with the opposite sign. As above.
[[nodiscard]] LOCKSTEP_API Tensor operator-(const Tensor& tensor);

/// `x += y` is `x = x + y`, as in TensorFlow: afterwards `x` refers to a new tensor, and tensors that shared the
/// elements of `x` keep their values. Not for components of variables, which an assignment would detach from their
/// variable.
template <std::same_as<Tensor> X, class Y>
  requires requires(const X& x, const Y& y) { x + y; }
X& operator+=(X& x, const Y& y) {
  return x = x + y;
}
template <std::same_as<Tensor> X, class Y>
  requires requires(const X& x, const Y& y) { x - y; }
X& operator-=(X& x, const Y& y) {
  return x = x - y;
}
template <std::same_as<Tensor> X, class Y>
  requires requires(const X& x, const Y& y) { (x * y); }
X& operator*=(X& x, const Y& y) {
  return x = x * y;
}
template <std::same_as<Tensor> X, class Y>
  requires requires(const X& x, const Y& y) { x / y; }
X& operator/=(X& x, const Y& y) {
  return x = x / y;
}

}  // namespace lockstep
