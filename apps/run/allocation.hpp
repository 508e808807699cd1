// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// The hosts and the number of ranks of a job: from the options, or from the allocation of a batch system.

#pragma once

#include "run/options.hpp"

#include <vector>

namespace run {

struct Allocation {
  int ranks = 0;            ///< number of ranks to start
  int slots = 0;            ///< number of ranks for which the hosts have room
  std::vector<Host> hosts;  ///< hosts that the launcher must be told; empty for this host, and for Slurm's
  bool in_slurm = false;    ///< whether Slurm gives the hosts
};

/// Prefers the options to the variables of Slurm, PBS and LSF. Throws options::OptionError, with the name of the option
/// or variable, for an invalid value, and if nothing gives the number of ranks.
[[nodiscard]] Allocation find_allocation(const Options& options);

}  // namespace run
