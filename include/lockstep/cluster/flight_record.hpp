// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The flight record: the last operations of each communicator of this process, for the program lockstep-explain.

#pragma once

#include <lockstep/base/export.hpp>

#include <string>

namespace lockstep {

/// Writes the flight record of this process as JSON to the file `path`, and returns its path. The file is replaced as a
/// whole. Default, empty: `lockstep-<job>-rank<rank>.json` in the directory of LOCKSTEP_RECORDER, else in TMPDIR, else
/// in /tmp; a failure and SIGQUIT write that file, too. `lockstep-explain` compares the files of the ranks.
/// The record has, for each communicator of this process, the last operations (LOCKSTEP_RECORDER, default: 512) with
/// their calls, lines, times and results. With LOCKSTEP_RECORDER=0 it has no communicators.
/// Local. Thread-safe; it does not wait for operations of other threads.
/// Throws Error(unavailable) that names the file and the reason if it cannot be written.
LOCKSTEP_API std::string write_flight_record(const std::string& path = {});

}  // namespace lockstep
