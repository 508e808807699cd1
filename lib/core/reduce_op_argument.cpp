// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/reduce_op_argument.hpp>

#include "base/check.hpp"

#include <algorithm>
#include <cctype>

namespace lockstep {
namespace {

bool same_letters(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
}

}  // namespace

ReduceOp ReduceOpArgument::named(std::string_view call) const {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    if (same_letters(name_, to_string(op))) return op;
  }
  detail::throw_error(Code::invalid_argument,
                      "{}: the operation \"{}\" is neither SUM nor MEAN, the two that have a name here; give min, max, "
                      "prod, band, bor and bxor as a ReduceOp, such as ReduceOp::max",
                      call, name_);
}

}  // namespace lockstep
