// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// The launcher, and its command line.

#pragma once

#include "run/allocation.hpp"
#include "run/options.hpp"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace run {

enum class LauncherKind { openmpi, hydra, srun };

struct Launcher {
  std::string path;
  LauncherKind kind = LauncherKind::openmpi;
};

/// There is no launcher, or it belongs to another MPI library. The text gives the remedy.
class LauncherError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The launcher: --launcher, then variable LOCKSTEP_LAUNCHER, then srun in a Slurm allocation if it has PMIx and
/// lockstep was built with Open MPI, then the one beside the MPI library of lockstep, then one in PATH. Runs the
/// candidates with --version. Throws LauncherError.
[[nodiscard]] Launcher find_launcher(const Options& options, const Allocation& allocation);

/// A command, and the variables that are set for it.
struct Command {
  std::vector<std::string> words;
  std::map<std::string, std::string> variables;
};

/// The command that starts the program. `variables` are those that lockstep-run sets for the ranks.
/// Throws options::OptionError for an option that the launcher does not have.
[[nodiscard]] Command make_command(const Launcher& launcher, const Allocation& allocation, const Options& options,
                                   const std::map<std::string, std::string>& variables);

/// The command and its variables as a line for a shell.
[[nodiscard]] std::string quoted(const Command& command);

}  // namespace run
