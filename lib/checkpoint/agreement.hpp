// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// All ranks agree on errors and values: a failure on one rank becomes the same error on all ranks.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

/// If `mine` is not null on at least one rank, throws an Error on all ranks, with the code and the text of the
/// exception of the lowest such rank. Collective: one all_reduce of 8 bytes; after a failure, also broadcasts of the
/// code and the text. Does not abort the epoch.
void rethrow_on_all_ranks(Communicator& communicator, const std::exception_ptr& mine);

/// Runs `body`, then calls rethrow_on_all_ranks with the exception of `body`, or null. Collective. `body` must not call
/// collectives.
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

/// Returns rank 0's number on every rank. Collective.
[[nodiscard]] std::uint64_t from_rank_0(Communicator& communicator, std::uint64_t number);
/// Returns rank 0's text on every rank. Collective.
[[nodiscard]] std::string from_rank_0(Communicator& communicator, const std::string& text);
/// A rank and the text that it passes to require_same.
struct TextOfRank {
  int rank;
  std::string text;
};

/// If the ranks pass different numbers, throws Error(mismatch) on every rank. The error's text is what `difference`
/// returns for the texts `mine` of rank 0 and of the lowest rank whose number differs from rank 0's. Collective: two
/// all_reduce calls of 8 bytes; after a mismatch, also the texts of the two ranks are broadcast.
void require_same(Communicator& communicator, std::uint64_t number, const std::string& mine,
                  const std::function<std::string(const TextOfRank& first, const TextOfRank& other)>& difference);
/// Replaces `numbers` by the element-wise sum over all ranks. Collective.
void add_over_ranks(Communicator& communicator, std::vector<std::uint32_t>& numbers);
/// Returns a tensor with one row per replica of all ranks. `local` has one tensor per local replica. The tensors have
/// the same shape on all ranks; each becomes a row. Collective.
[[nodiscard]] Tensor gather_rows_of_replicas(Communicator& communicator, std::span<const ConstTensorView> local);

}  // namespace lockstep::detail
