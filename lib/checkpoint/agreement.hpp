// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong for one rank goes wrong for all: with the same error, and before anything has changed.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

/// If `mine` is set on any rank, throws the error of the lowest such rank on all ranks, with its code. Collective: 8
/// bytes, and the text if there is one. No epoch is aborted: every rank calls it.
void agree_on_failure(Communicator& communicator, const std::exception_ptr& mine);

/// Runs `body`, which does nothing Collective, on every rank; throws as agree_on_failure.
template <class Body>
void together(Communicator& communicator, Body&& body) {
  std::exception_ptr error;
  try {
    body();
  } catch (...) {
    error = std::current_exception();
  }
  agree_on_failure(communicator, error);
}

/// Rank 0's number, on every rank. Collective.
[[nodiscard]] std::uint64_t from_chief(Communicator& communicator, std::uint64_t number);
/// Rank 0's text, on every rank. Collective.
[[nodiscard]] std::string from_chief(Communicator& communicator, const std::string& text);
/// Throws Error(mismatch) on every rank unless all have the same number; `what` says of what. Collective.
void require_same(Communicator& communicator, std::uint64_t number, const std::string& what);
/// Adds up what the ranks have, element by element, on every rank. Collective.
void add_over_ranks(Communicator& communicator, std::vector<std::uint32_t>& numbers);
/// One row for each replica of all ranks, from those of the local ones, which have one shape. Collective.
[[nodiscard]] Tensor gather_rows_of_replicas(Communicator& communicator, std::span<const ConstTensorView> local);

}  // namespace lockstep::detail
