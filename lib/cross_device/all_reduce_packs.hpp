// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch as several all_reduces of the communicator.

#pragma once

#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <optional>
#include <span>
#include <string_view>

namespace lockstep {

/// How a batch is cut, and in which order its values are added.
struct PackOptions {
  int num_packs = 1;           ///< of about the same number of elements; 0: one for each value
  std::optional<Order> order;  ///< default: the communicator's
};

/// Throws Error(invalid_argument), which begins with `who`, for a negative number.
[[nodiscard]] int checked_num_packs(int num_packs, std::string_view who);

/// The last values first. `bytes_per_pack` of `options` goes before the number of packs. Collective.
void all_reduce_in_packs(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                         const CommunicationOptions& options, const PackOptions& packs);

}  // namespace lockstep
