// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What launchers tell each process in its environment. MPI is the truth; these only explain it.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// Empty when nothing speaks against a single rank. Otherwise why MPI's one rank must be a mistake, and how to repair
/// it: a program started by another MPI's launcher runs as many jobs of one rank. Only variables that a launcher sets
/// for each process count; those that a plain batch script has too (SLURM_NTASKS) prove nothing.
[[nodiscard]] std::string launcher_mismatch(const std::string& mpi_version);

/// Who started this process, for people: "Open MPI's mpirun in Slurm job 12", "no launcher that is known".
[[nodiscard]] std::string launcher_of_this_process();

/// The launcher that started this process from a daemon of its own, whose SLURM_* variables the process has inherited;
/// empty where there is none.
[[nodiscard]] std::string launcher_within_slurm();

/// The whole of `text` as a decimal number.
[[nodiscard]] std::optional<long> number_of(std::string_view text);

}  // namespace lockstep::detail
