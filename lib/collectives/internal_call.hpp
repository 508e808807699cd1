// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The options of collective calls that the library makes on behalf of its caller.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include <optional>
#include <source_location>
#include <string_view>

namespace lockstep::detail {

/// Errors of the call show only `name`, and the line `where` if it is known.
[[nodiscard]] inline ReduceOptions internal_call(std::string_view name,
                                                 const std::source_location& where = std::source_location()) {
  return {.order = std::nullopt, .name = name, .where = where, .only_name = true};
}

}  // namespace lockstep::detail
