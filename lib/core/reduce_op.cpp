// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/reduce_op.hpp>

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep {
namespace {
constexpr std::array<std::string_view, reduce_op_count> names{"sum",  "mean", "min", "max",
                                                              "prod", "band", "bor", "bxor"};
}

std::string_view to_string(ReduceOp op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < names.size() ? names[index] : "unknown";
}

std::string_view to_string(Order order) noexcept { return order == Order::canonical ? "canonical" : "any"; }

ReduceOp parse_reduce_op(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::find(names.begin(), names.end(), lower);
  if (found == names.end()) {
    detail::throw_error(Code::invalid_argument,
                        "reduce op \"{}\" is unknown; the ops are sum, mean, min, max, prod, band, bor, bxor", name);
  }
  return static_cast<ReduceOp>(found - names.begin());
}

}  // namespace lockstep
