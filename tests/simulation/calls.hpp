// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls of the library that simulated ranks make.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/collectives/request.hpp>

#include "simulation/scenario.hpp"

namespace lockstep::simulation {

/// Begins an operation, which is not Kind::messages. Operation::way must be Way::call.
[[nodiscard]] Request start(const Communicator& comm, const Operation& operation, const Item& item);
/// As `start`, to its end.
void call(const Communicator& comm, const Operation& operation, const Item& item);
/// Runs an all_reduce twice. A rank that does not `prepare` it makes two calls in place of the runs, which are equal.
void run_plan(const Communicator& comm, const Operation& operation, const Item& item, bool prepares);

/// Forgets the messages of the job before.
void forget_messages() noexcept;
/// Whether the rank has called `send` as often as the other one `recv`, or more or less often, as after a failure.
[[nodiscard]] bool are_matched(int sender, int receiver) noexcept;

}  // namespace lockstep::simulation
