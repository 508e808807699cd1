// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The environment variables that launchers set for each process. The variables only explain what MPI reports; MPI is
// authoritative.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// For a job in which MPI sees one rank. If the environment shows that a launcher started several ranks, returns an
/// error text with the remedy; otherwise returns an empty text. (If a program is started by the launcher of another MPI
/// library, each process is a job of one rank.) Considers only variables that a launcher sets for each process;
/// SLURM_NTASKS, for example, is also set in a batch script.
[[nodiscard]] std::string launcher_mismatch(const std::string& mpi_version);

/// The launcher of this process, for messages: "Open MPI's mpirun in Slurm job 12", "an unknown launcher".
[[nodiscard]] std::string launcher_of_this_process();

/// A name for this run of the job, equal on all ranks: the numbers that the batch system and the launcher gave to the
/// job. The name has only alphanumeric characters and "._-". If there is no such number, the name has a process id, and
/// differs between hosts. It is the id of the parent process or, without a launcher, of this process. Every call in a
/// process returns the name of the first call. Thread-safe.
[[nodiscard]] std::string name_of_this_job();

/// The launcher, other than srun, whose daemon started this process; empty if there is none. The SLURM_* variables of
/// the process describe that daemon.
[[nodiscard]] std::string launcher_within_slurm();

/// `text` as a decimal number; nullopt if `text` is not a decimal number.
[[nodiscard]] std::optional<long> number_of(std::string_view text);

}  // namespace lockstep::detail
