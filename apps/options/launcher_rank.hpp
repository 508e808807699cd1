// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "apps/options/number.hpp"

#include <cstdlib>

namespace options {

/// The rank that a launcher's variables give to this process; -1 without a launcher, or if the variable is not a
/// number. mpirun's variables come before those of Slurm, which under mpirun describe mpirun's daemon. Local.
[[nodiscard]] inline int launcher_rank() {
  for (const char* const name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "FLUX_TASK_RANK", "SLURM_PROCID"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) return number_of<int>(value).value_or(-1);
  }
  return -1;
}

}  // namespace options
