// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/variables/variable_options.hpp>

#include "base/check.hpp"
#include "core/enum_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>

namespace lockstep {
namespace {

// indexed by the enumerators
constexpr std::array<std::string_view, 4> synchronizations{"auto", "none", "on_write", "on_read"};
constexpr std::array<std::string_view, 4> aggregations{"none", "sum", "mean", "only_first_replica"};

template <class Enum>
Enum parse(std::string_view name, std::string_view kind, const std::array<std::string_view, 4>& names) {
  if (const auto found = detail::find_enumerator<Enum>(name, names)) return *found;
  detail::throw_error(Code::invalid_argument, "{} \"{}\" is unknown; the names are {}", kind, name,
                      fmt::join(names, ", "));
}

std::string_view without_number(std::string_view segment) {
  const std::size_t digits = segment.find_last_not_of("0123456789");
  const bool numbered = digits != std::string_view::npos && digits + 1 < segment.size() && segment[digits] == '_';
  return numbered ? segment.substr(0, digits) : segment;
}

}  // namespace

std::string_view to_string(VariableSynchronization synchronization) noexcept {
  return detail::name_of(synchronization, synchronizations);
}

std::string_view to_string(VariableAggregation aggregation) noexcept {
  return detail::name_of(aggregation, aggregations);
}

VariableSynchronization parse_variable_synchronization(std::string_view name) {
  return parse<VariableSynchronization>(name, "variable synchronization", synchronizations);
}

VariableAggregation parse_variable_aggregation(std::string_view name) {
  return parse<VariableAggregation>(name, "variable aggregation", aggregations);
}

ReduceOp reduce_op_of(VariableAggregation aggregation) {
  if (aggregation == VariableAggregation::sum) return ReduceOp::sum;
  if (aggregation == VariableAggregation::mean) return ReduceOp::mean;
  detail::throw_error(Code::invalid_argument,
                      "reduce_op_of: variable aggregation {} is not a reduction; it must be sum or mean",
                      to_string(aggregation));
}

std::string canonical_name(std::string_view name) {
  std::string result;
  for (;;) {
    const std::size_t slash = name.find('/');
    result += without_number(name.substr(0, slash));
    if (slash == std::string_view::npos) return result;
    result += '/';
    name.remove_prefix(slash + 1);
  }
}

}  // namespace lockstep
