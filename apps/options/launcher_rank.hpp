// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace options {

/// The rank that a launcher's variables give to this process; -1 without a launcher, or if the variable is not a
/// number. mpirun's variables come before those of Slurm, which under mpirun describe mpirun's daemon. Local.
[[nodiscard]] inline int launcher_rank() {
  for (const char* const name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "FLUX_TASK_RANK", "SLURM_PROCID"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string_view text(value);
    int rank = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    return error == std::errc{} && end == text.data() + text.size() ? rank : -1;
  }
  return -1;
}

}  // namespace options
