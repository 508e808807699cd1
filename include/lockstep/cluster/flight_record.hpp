// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The flight record: the last operations of each communicator of this process, for the program lockstep-explain.

#pragma once

#include <lockstep/base/export.hpp>

#include <string>

namespace lockstep {

/// Writes the flight record of this process as JSON to the file `path`, and returns the path of the file. If the file
/// exists, it is replaced atomically. If `path` is empty, the file is `lockstep-<job>-rank<rank>.json`. Its directory
/// is the one that LOCKSTEP_RECORDER names; if the variable names no directory, TMPDIR; if TMPDIR is not set, /tmp.
/// lockstep itself writes this default file after a failure and on SIGQUIT. The program `lockstep-explain` compares the
/// files of the ranks.
/// For each communicator of this process, the record has the last operations, with the call, the source line, the times
/// and the result of each. LOCKSTEP_RECORDER sets the number of these operations (default: 512). With
/// LOCKSTEP_RECORDER=0 the record has no communicators.
/// Local. Thread-safe; does not wait for operations of other threads.
/// If the file cannot be written, throws Error(unavailable), which names the file and the reason.
LOCKSTEP_API std::string write_flight_record(const std::string& path = {});

}  // namespace lockstep
