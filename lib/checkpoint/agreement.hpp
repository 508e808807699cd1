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

/// Throws where `mine` is set on any rank: on all ranks the error of the lowest such one, with its code. Collective: 8
/// bytes, and the text where there is one.
void rethrow_on_all_ranks(Communicator& communicator, const std::exception_ptr& mine);

/// Runs `body`, which does nothing Collective, on every rank; throws as rethrow_on_all_ranks.
template <class Body>
void run_on_all_ranks(Communicator& communicator, Body&& body) {
  std::exception_ptr error;
  try {
    body();
  } catch (...) {
    error = std::current_exception();
  }
  rethrow_on_all_ranks(communicator, error);
}

/// Rank 0's number, on every rank. Collective.
[[nodiscard]] std::uint64_t from_rank_0(Communicator& communicator, std::uint64_t number);
/// Rank 0's text, on every rank. Collective.
[[nodiscard]] std::string from_rank_0(Communicator& communicator, const std::string& text);
/// Throws Error(mismatch) on every rank unless all have the same number; `what` says of what. Collective.
void require_same(Communicator& communicator, std::uint64_t number, const std::string& what);
/// Adds up what the ranks have, element by element, on every rank. Collective.
void add_over_ranks(Communicator& communicator, std::vector<std::uint32_t>& numbers);
/// One row for each replica of all ranks, from those of the local ones, which have one shape. Collective.
[[nodiscard]] Tensor gather_rows_of_replicas(Communicator& communicator, std::span<const ConstTensorView> local);

}  // namespace lockstep::detail
