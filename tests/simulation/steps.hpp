// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of strategies that simulated ranks make.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/item.hpp>

#include <optional>
#include <string>

namespace lockstep::simulation {

/// Makes a strategy over the ranks of `comm`, and a step in which each replica adds its input to a variable, and
/// reduces it to its output. The first replica of this rank throws std::runtime_error with the text `thrown`, if it is
/// given. Returns what is wrong with the variable; else an empty text.
[[nodiscard]] std::string make_step(const Communicator& comm, const Item& item,
                                    const std::optional<std::string>& thrown = std::nullopt);

}  // namespace lockstep::simulation
