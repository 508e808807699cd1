// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// The options of lockstep-run. They end at the first word that is neither an option nor the value of one: the program.

#pragma once

#include <string>
#include <vector>

namespace run {

/// A host on which ranks are started.
struct Host {
  std::string name;
  int slots = 1;  ///< number of ranks for which the host has room
};

/// How the metrics of the ranks are shown. `automatic` is `live` if stderr is a terminal, otherwise `lines`.
enum class ProgressMode { automatic, never, lines, live };

struct Options {
  int ranks = 0;            ///< number of ranks; 0 if not given
  std::vector<Host> hosts;  ///< hosts of -H or --hostfile; empty if not given
  std::string launcher;     ///< path or name of the launcher; empty if not given
  std::string bind;         ///< none, core, socket or numa; empty leaves the choice to the launcher
  int ranks_per_host = 0;   ///< 0 leaves the choice to the launcher
  int gpus = 0;             ///< GPUs per rank, for srun; 0 if not given
  ProgressMode progress = ProgressMode::automatic;
  double progress_every_s = 10;      ///< time between two lines of progress
  bool drop_in = false;              ///< preload the drop-in for MPI programs
  bool drop_in_memory = false;       ///< with it, preload the library that puts large blocks into the arena
  bool dry_run = false;              ///< print the command instead of running it
  bool help = false;                 ///< print the options
  bool version = false;              ///< print the version
  std::vector<std::string> command;  ///< the program and its arguments
};

/// Reads the command line, and variables such as LOCKSTEP_RUN_BIND. Throws options::OptionError.
[[nodiscard]] Options read_options(int argc, const char* const* argv);

/// The text of --help.
[[nodiscard]] std::string help();

/// The most ranks of all hosts.
constexpr int most_ranks = 1'000'000;

/// Adds `host`, or its slots to those of the same host. `what` names the list in errors. Throws options::OptionError if
/// there are more than `most_ranks` slots.
void add_host(std::vector<Host>& hosts, const Host& host, const std::string& what);

/// Reads the lines "HOST", "HOST slots=N", "HOST:N" of a host file; a repeated host has the sum of its slots.
/// `what` names the file in errors. Throws options::OptionError.
[[nodiscard]] std::vector<Host> read_host_file(const std::string& what, const std::string& path);

/// `text` as a number from 1 to `most`. `what` names it in errors. Throws options::OptionError.
[[nodiscard]] int positive_number(const std::string& what, const std::string& text, int most = most_ranks);

}  // namespace run
