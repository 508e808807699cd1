// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls in which one rank passes other arguments than the others, and calls in which it passes the same arguments in
// another spelling.

#pragma once

#include "model/call.hpp"
#include "model/model.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::test {

/// The call of one rank that differs in one argument, and the error that all ranks must get.
struct Deviation {
  Change change = Change::op;
  int rank = 0;
  Call call;
  Code error = Code::mismatch;
};

/// A deviation from `call`, whose other arguments may be changed for all ranks, so that the deviation has an effect.
/// nullopt if the call has no such deviation, for example if no leaf is reduced.
[[nodiscard]] std::optional<Deviation> make_deviation(Dice& dice, Call& call, const Layout& layout);

/// The same call with arguments that mean the same: the last axis as -1, sum as text.
[[nodiscard]] Call spelled(const Call& call, const Layout& layout, int rank);

/// Makes a call on new variables in which one rank differs, and checks that all ranks get Error(mismatch), that no copy
/// was written, and that the next calls have the results of the model. Returns the name of the difference. Throws if a
/// check fails.
std::string variable_deviation(Strategy& strategy, std::uint64_t seed, const Layout& layout, int rank);

}  // namespace lockstep::test
