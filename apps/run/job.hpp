// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// Runs the launcher: its signals, output and exit code.

#pragma once

#include "run/launcher.hpp"
#include "run/progress.hpp"

namespace run {

/// Starts the command, waits for its end, and returns its exit code; 128+N if signal N ended it, 127 if it cannot be
/// started. Forwards INT, TERM, HUP, QUIT, USR1, USR2, TSTP and CONT, except those that the terminal has sent to the
/// launcher as well. The launcher receives SIGTERM if this process dies. If `progress` is live, output to a terminal
/// passes through this process. Call it once, from a process with one thread.
[[nodiscard]] int run_job(const Command& command, Progress& progress);

}  // namespace run
