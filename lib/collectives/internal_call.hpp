// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What functions that make collective calls on behalf of their caller have in common.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/detail/propagate.hpp>

#include "base/check.hpp"

#include <optional>
#include <source_location>
#include <string_view>

namespace lockstep::detail {

/// Errors of the call show only `name`, and the line `where` if it is known.
[[nodiscard]] inline ReduceOptions internal_call(std::string_view name,
                                                 const std::source_location& where = std::source_location()) {
  return {.order = std::nullopt, .name = name, .where = where, .only_name = true};
}

/// Throws Error(invalid_argument), on all ranks, if a rank has several replicas. Local.
inline void require_one_replica_per_rank(const Communicator& communicator, std::string_view call) {
  const ReplicaLayout& layout = communicator.layout();
  if (layout.replicas() == layout.ranks()) return;
  propagate(
      communicator,
      [&] {
        int rank = 0;
        while (layout.count(rank) == 1) ++rank;
        throw_error(Code::invalid_argument, "{}: rank {} has {} replicas; the call requires one replica per rank", call,
                    rank, layout.count(rank));
      },
      FoundBy::all_ranks);
}

}  // namespace lockstep::detail
