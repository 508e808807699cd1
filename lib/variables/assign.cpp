// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes of whole variables.

#include "context/replica_team.hpp"
#include "variables/elementwise.hpp"
#include "variables/variable_state.hpp"

#include <lockstep/variables/variable.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <source_location>
#include <string_view>

namespace lockstep {
namespace {

using Place = VariableState::Place;
using Use = VariableState::Use;

constexpr std::array<std::string_view, 3> assignment_names{"assign", "assign_add", "assign_sub"};

void check_value(const VariableState& state, const Use& use, ConstTensorView value, std::string_view call) {
  const ConstTensorView copy = state.copies.front().view();
  if (value.dtype == copy.dtype && value.shape == copy.shape) return;
  state.refuse(use, Error(Code::invalid_argument,
                          fmt::format("{} to variable \"{}\": the value is {}{}, but the variable is {}{}; they must "
                                      "be the same",
                                      call, state.options.name, to_string(value.dtype), to_string(value.shape),
                                      to_string(copy.dtype), to_string(copy.shape))));
}

void refuse_bool(const VariableState& state, const Use& use, std::string_view call) {
  state.refuse(use, Error(Code::invalid_argument, fmt::format("{} to variable \"{}\": bool values cannot be added or "
                                                              "subtracted; use assign",
                                                              call, state.options.name)));
}

void refuse_add_to_total(const VariableState& state, const Use& use, std::string_view call) {
  state.refuse(
      use, Error(Code::invalid_argument,
                 fmt::format(
                     "{} to variable \"{}\": outside of step functions its value is the SUM of all replicas' copies, "
                     "so a value added to each copy would count once per replica. Make this call in the step "
                     "function, or assign the new sum to the variable",
                     call, state.options.name)));
}

}  // namespace

const Variable& Variable::write(Write how, ConstTensorView value, const std::source_location& where) const {
  VariableState& state = *state_;
  const Use use = state.use_for_write();
  const std::string_view call = assignment_names[static_cast<std::size_t>(how)];
  check_value(state, use, value, call);
  const bool spreads =
      state.is_on_read() && state.options.aggregation == VariableAggregation::sum && use.place == Place::cross_replica;
  if (value.dtype == DType::boolean && how != Write::assign) refuse_bool(state, use, call);
  if (spreads && how != Write::assign) refuse_add_to_total(state, use, call);

  const auto write_copy = [&state, how](int local, ConstTensorView from) {
    Tensor& copy = state.copy(local);
    switch (how) {
      case Write::assign: copy.copy_from(from); break;
      case Write::add: detail::add_to(copy.view(), from); break;
      case Write::subtract: detail::subtract_from(copy.view(), from); break;
    }
  };
  if (use.place == Place::replica && !state.is_on_read()) {
    write_copy(use.copy, state.aggregate_written(use.copy, value, call, where).view());
  } else if (use.place != Place::cross_replica) {
    write_copy(use.copy, value);
  } else {
    const int first = state.team->first_replica_id();
    detail::propagate(state.team->communicator(), [&] {
      for (int i = 0; i < component_count(); ++i) {
        if (spreads) {
          detail::write_share(state.copy(i).view(), value, first + i, state.team->replicas());
        } else {
          write_copy(i, value);
        }
      }
    });
  }
  return *this;
}

}  // namespace lockstep
