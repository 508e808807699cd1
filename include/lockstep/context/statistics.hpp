// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace lockstep {

/// What a strategy has done on this rank since it was made. Times are those of the first local replica's thread.
struct StrategyStatistics {
  std::int64_t runs = 0;            ///< steps that were run, nested ones included
  std::int64_t collectives = 0;     ///< calls into the communicator
  double collective_seconds = 0.0;  ///< inside those calls, waiting for other ranks included
  double meeting_seconds = 0.0;     ///< waiting for the other local replicas before them
};

}  // namespace lockstep
