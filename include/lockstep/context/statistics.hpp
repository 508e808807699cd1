// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace lockstep {

/// Counters of a strategy on this rank since the construction of the strategy. Times are those of the first local
/// replica's thread.
struct StrategyStatistics {
  std::int64_t runs = 0;            ///< number of steps, including nested steps
  std::int64_t collectives = 0;     ///< number of calls into the communicator
  double collective_seconds = 0.0;  ///< time in the calls into the communicator, including the wait for other ranks
  double rendezvous_seconds = 0.0;  ///< time in which the first local replica waits for the others before these calls
};

}  // namespace lockstep
