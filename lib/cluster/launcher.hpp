// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The environment variables that launchers set for each process. They only explain what MPI reports; MPI is
// authoritative.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// For a job in which MPI sees one rank: the reason why that must be an error, and the remedy; empty if there is no
/// such reason. (A program that is started by the launcher of another MPI runs as many jobs of one rank each.)
/// Considers only variables that a launcher sets for each process, not those that a plain batch script has too
/// (SLURM_NTASKS).
[[nodiscard]] std::string launcher_mismatch(const std::string& mpi_version);

/// The launcher of this process, for messages: "Open MPI's mpirun in Slurm job 12", "an unknown launcher".
[[nodiscard]] std::string launcher_of_this_process();

/// A name for this run of the job, equal on all ranks: the numbers that the batch system and the launcher gave it. It
/// has only alphanumeric characters and "._-". If there is no number, the name is made of the number of the parent
/// process, or of this one without a launcher, and then differs between hosts.
[[nodiscard]] std::string name_of_this_job();

/// The launcher that started this process through its own daemon, from which the process inherited SLURM_* variables
/// that are not its own; empty if there is none.
[[nodiscard]] std::string launcher_within_slurm();

/// `text` as a decimal number; nothing unless all of it is one.
[[nodiscard]] std::optional<long> number_of(std::string_view text);

}  // namespace lockstep::detail
