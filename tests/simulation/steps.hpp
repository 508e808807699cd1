// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of strategies that simulated ranks make.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/item.hpp>

#include "transport/shm/node_group.hpp"

#include <optional>
#include <string>

namespace lockstep::simulation {

/// Makes a strategy over the ranks of `comm`, and a step in which each replica adds to a variable, and all_reduces its
/// input to its output. The first replica of this rank throws std::runtime_error with the text `thrown`, if it is
/// given. An error of the step is also told, by abort, to ranks that are in an operation of `comm` by then. Returns
/// what is wrong with the variable; else an empty text.
[[nodiscard]] std::string make_step(const Communicator& comm, const Item& item, const detail::TestHooks& hooks,
                                    const std::optional<std::string>& thrown = std::nullopt);

}  // namespace lockstep::simulation
