// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/reduce_op_argument.hpp>

#include "base/check.hpp"
#include "core/enum_names.hpp"

namespace lockstep {

ReduceOp ReduceOpArgument::named(std::string_view call) const {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    if (detail::same_letters(name_, to_string(op))) return op;
  }
  detail::throw_error(
      Code::invalid_argument,
      "{}: the operation \"{}\" is neither SUM nor MEAN, the only two that can be given by name; give min, max, "
      "prod, band, bor and bxor as a ReduceOp, such as ReduceOp::max",
      call, name_);
}

}  // namespace lockstep
