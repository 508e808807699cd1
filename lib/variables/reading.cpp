// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/variables/reading.hpp>

#include "base/check.hpp"

#include <lockstep/values/print.hpp>

namespace lockstep::detail {

void throw_not_one_number(std::size_t count) {
  throw_error(Code::failed_precondition,
              "the value of a variable with {} elements is used as one number; use elements()", count);
}

Shape arithmetic_shape(const Shape& a, const Shape& b) {
  if (a == b || b.rank() == 0) return a;
  if (a.rank() == 0) return b;
  throw_error(
      Code::invalid_argument,
      "arithmetic on variables: the operands have shapes {} and {}; they must be the same, or one operand a number",
      to_string(a), to_string(b));
}

void throw_divided_by_zero() {
  throw_error(Code::invalid_argument, "arithmetic on variables: an integer is divided by zero");
}

std::ostream& print_elements(std::ostream& out, ConstTensorView view) { return out << elements_text(view); }

}  // namespace lockstep::detail
