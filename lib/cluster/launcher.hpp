// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What launchers tell each process in its environment. MPI is the truth; these only explain it.

#pragma once

#include <string>

namespace lockstep::detail {

/// Empty when nothing speaks against a single rank. Otherwise why MPI's one rank must be a mistake, and how to repair
/// it: a program started by another MPI's launcher runs as many jobs of one rank. Only variables that a launcher sets
/// for each process count; those that a plain batch script has too (SLURM_NTASKS) prove nothing.
[[nodiscard]] std::string suspicion_of_wrong_launcher(const std::string& mpi_version);

}  // namespace lockstep::detail
