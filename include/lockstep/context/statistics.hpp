// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace lockstep {

/// Counters of a strategy on this rank since its construction. Times are those of the first local replica's thread.
struct StrategyStatistics {
  std::int64_t runs = 0;            ///< number of steps, nested ones included
  std::int64_t collectives = 0;     ///< number of calls into the communicator
  double collective_seconds = 0.0;  ///< time in these calls, waiting for other ranks included
  double rendezvous_seconds = 0.0;  ///< time spent waiting for the other local replicas before these calls
};

}  // namespace lockstep
