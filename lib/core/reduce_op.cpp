// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/reduce_op.hpp>

#include <lockstep/core/reduce_op_argument.hpp>

#include "base/check.hpp"
#include "core/enum_names.hpp"

#include <array>

namespace lockstep {
namespace {
constexpr std::array<std::string_view, reduce_op_count> op_names{"sum",  "mean", "min", "max",
                                                                 "prod", "band", "bor", "bxor"};
}

std::string_view to_string(ReduceOp op) noexcept { return detail::name_of(op, op_names); }

std::string_view to_string(Order order) noexcept { return order == Order::canonical ? "canonical" : "any"; }

ReduceOp parse_reduce_op(std::string_view name) {
  if (const auto found = detail::find_enumerator<ReduceOp>(name, op_names)) return *found;
  detail::throw_error(Code::invalid_argument,
                      "reduce op \"{}\" is unknown; it must be one of sum, mean, min, max, prod, band, bor, bxor",
                      name);
}

ReduceOp ReduceOpArgument::named(std::string_view call) const {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    if (detail::equal_ignoring_case(name_, to_string(op))) return op;
  }
  if (name_ == "only_first_replica" || name_ == "none") {  // the other names of VariableAggregation
    detail::throw_error(Code::invalid_argument, "{}: the aggregation {} is not a reduction; give sum or mean", call,
                        name_);
  }
  detail::throw_error(
      Code::invalid_argument,
      "{}: the operation \"{}\" is neither SUM nor MEAN, the only two that can be given by name; give min, max, "
      "prod, band, bor and bxor as a ReduceOp, such as ReduceOp::max",
      call, name_);
}

}  // namespace lockstep
