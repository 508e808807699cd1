// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The exit codes of lockstep's programs, and of a job that the library aborts. Programs of users may return the same.

#pragma once

/// mpirun returns the code with which the library has aborted the job, or the code of the first rank that returned
/// another one than 0. A rank that is killed by a signal, or calls abort(), has the code of its signal there.
namespace lockstep::exit_code {

/// All is done.
inline constexpr int success = 0;
/// An exception has ended the program, or a result is wrong.
inline constexpr int failure = 1;
/// An option, an argument or an environment variable is wrong.
inline constexpr int usage = 2;
/// Data or a checkpoint is missing or corrupt.
inline constexpr int bad_data = 5;
/// A rank has exited, has died, or did not respond before the deadline (EX_UNAVAILABLE of <sysexits.h>).
inline constexpr int unavailable = 69;
/// The state is saved, and the job is to be started again (EX_TEMPFAIL).
inline constexpr int saved = 75;

}  // namespace lockstep::exit_code
