// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares a call of the library with the model.

#pragma once

#include "model/performer.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::test {

/// What a call returned on one rank, or the error that it threw.
struct Outcome {
  std::optional<Code> error;
  Texts texts;

  friend bool operator==(const Outcome& a, const Outcome& b) = default;
};
[[nodiscard]] std::string to_string(const Outcome& outcome);

/// Adds the nests of the program.
void add_nests(std::vector<Nest>& nests);
/// All nests of the program, in an order that does not depend on the machine.
[[nodiscard]] const std::vector<Nest>& all_nests();
[[nodiscard]] const std::vector<NestFacts>& all_facts();

/// What the contract says that a call has on a rank.
[[nodiscard]] Outcome expected(const Call& call, const Layout& layout, int rank);
/// What the library does. `text` gets the text of the error.
[[nodiscard]] Outcome performed(Strategy& strategy, const Call& call, const Layout& layout, int rank,
                                std::string& text);

/// The copies of a variable on a rank.
[[nodiscard]] std::span<const Elements> local_copies(const ModelVariable& variable, const Layout& layout, int rank);
/// Random operations on a new variable: what the table of class Variable says, and what the library does.
[[nodiscard]] Texts expected_of_variable(const Call& call, const Layout& layout, int rank);
[[nodiscard]] Texts performed_on_variable(Strategy& strategy, const Call& call, const Layout& layout, int rank);

/// Reductions of lists of dense, sparse and shared values.
[[nodiscard]] Outcome expected_of_pairs(const Call& call, const Layout& layout, int rank);
[[nodiscard]] Texts performed_on_pairs(Strategy& strategy, const Call& call, const Layout& layout, int rank);

}  // namespace lockstep::test
