// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/device/arithmetic.hpp>

#include "base/check.hpp"
#include "device/elementwise.hpp"
#include "device/host/host_elements.hpp"
#include "device/numbers.hpp"

#include <string_view>

namespace lockstep {

namespace {

using detail::ElementOp;
using detail::NumberConversion;
using detail::Operand;

char symbol_of(ElementOp op) {
  switch (op) {
    case ElementOp::add: return '+';
    case ElementOp::sub: return '-';
    case ElementOp::mul: return '*';
    default: return '/';
  }
}

void check_operands(ElementOp op, const Tensor& left, const Tensor& right) {
  const auto refuse = [op](std::string_view property, std::string_view a, std::string_view b, std::string_view remedy) {
    detail::throw_error(Code::invalid_argument, "arithmetic on tensors: the operands of {} have the {} {} and {}; {}",
                        symbol_of(op), property, a, b, remedy);
  };
  if (left.dtype() != right.dtype()) {
    refuse("dtypes", to_string(left.dtype()), to_string(right.dtype()), "they must be equal");
  }
  if (left.shape() != right.shape()) {
    refuse("shapes", to_string(left.shape()), to_string(right.shape()),
           "they must be equal, or one operand a number; float(t) is the number of a tensor with one element");
  }
  const bool are_on_host = detail::is_on_host(left.device()) && detail::is_on_host(right.device());
  if (!are_on_host && left.device() != right.device()) {
    refuse("devices", to_string(left.device()), to_string(right.device()),
           "copy one to the device of the other by to()");
  }
}

Operand operand_of(const Tensor& tensor) { return {.array = tensor.data()}; }

Operand operand_of(const NumberOperand& number, ElementOp op, DType dtype) {
  const ConstTensorView view = number.view();
  Operand operand;
  switch (detail::convert_number(dtype, operand.number.data(), view.dtype, view.data)) {
    case NumberConversion::done: break;
    case NumberConversion::wrong_kind:
      detail::throw_error(Code::invalid_argument,
                          "arithmetic on tensors: {} combines a tensor of {} and a number of {}, which would be "
                          "truncated; round the number to an integer, or use a tensor of floating-point numbers",
                          symbol_of(op), to_string(dtype), to_string(view.dtype));
    case NumberConversion::out_of_range:
      detail::throw_error(Code::invalid_argument,
                          "arithmetic on tensors: {} combines a tensor of {} and a number that {} cannot store",
                          symbol_of(op), to_string(dtype), to_string(dtype));
  }
  return operand;
}

/// `like` is the tensor operand, or one of both.
Tensor combined(ElementOp op, const Tensor& like, const Operand& left, const Operand& right) {
  Tensor result = Tensor::uninitialized(like.dtype(), like.shape(), nullptr, like.device());
  detail::compute_on(like.device(), {.op = op,
                                     .dtype = like.dtype(),
                                     .target = result.data(),
                                     .left = left,
                                     .right = right,
                                     .count = like.element_count()});
  return result;
}

void refuse_bool(ElementOp op, const Tensor& tensor) {
  if (tensor.dtype() != DType::boolean) return;
  detail::throw_error(Code::invalid_argument,
                      "arithmetic on tensors: an operand of {} is bool, which has no arithmetic", symbol_of(op));
}

void check_divisors(ElementOp op, ConstTensorView divisors) {
  if (op != ElementOp::div || !detail::has_integer_zero(divisors)) return;
  detail::throw_error(Code::invalid_argument, "arithmetic on tensors: an integer is divided by zero");
}

Tensor combined(ElementOp op, const Tensor& left, const Tensor& right) {
  check_operands(op, left, right);
  refuse_bool(op, left);
  check_divisors(op, right.view());
  return combined(op, left, operand_of(left), operand_of(right));
}

Tensor combined(ElementOp op, const Tensor& left, const NumberOperand& right) {
  refuse_bool(op, left);
  const Operand number = operand_of(right, op, left.dtype());
  check_divisors(op, {number.number.data(), left.dtype(), Shape{}});
  return combined(op, left, operand_of(left), number);
}

Tensor combined(ElementOp op, const NumberOperand& left, const Tensor& right) {
  refuse_bool(op, right);
  check_divisors(op, right.view());
  return combined(op, right, operand_of(left, op, right.dtype()), operand_of(right));
}

}  // namespace

Tensor operator+(const Tensor& left, const Tensor& right) { return combined(ElementOp::add, left, right); }
Tensor operator-(const Tensor& left, const Tensor& right) { return combined(ElementOp::sub, left, right); }
Tensor operator*(const Tensor& left, const Tensor& right) { return combined(ElementOp::mul, left, right); }
Tensor operator/(const Tensor& left, const Tensor& right) { return combined(ElementOp::div, left, right); }
Tensor operator+(const Tensor& left, const NumberOperand& right) { return combined(ElementOp::add, left, right); }
Tensor operator-(const Tensor& left, const NumberOperand& right) { return combined(ElementOp::sub, left, right); }
Tensor operator*(const Tensor& left, const NumberOperand& right) { return combined(ElementOp::mul, left, right); }
Tensor operator/(const Tensor& left, const NumberOperand& right) { return combined(ElementOp::div, left, right); }
Tensor operator+(const NumberOperand& left, const Tensor& right) { return combined(ElementOp::add, left, right); }
Tensor operator-(const NumberOperand& left, const Tensor& right) { return combined(ElementOp::sub, left, right); }
Tensor operator*(const NumberOperand& left, const Tensor& right) { return combined(ElementOp::mul, left, right); }
Tensor operator/(const NumberOperand& left, const Tensor& right) { return combined(ElementOp::div, left, right); }

Tensor operator-(const Tensor& tensor) {
  // 0 - x would be +0 for a zero of either sign
  return is_floating_point(tensor.dtype()) ? tensor * -1 : 0 - tensor;
}

}  // namespace lockstep
