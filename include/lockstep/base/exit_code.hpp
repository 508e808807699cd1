// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The exit codes of lockstep's programs, and of a job that the library aborts. Programs of users may return the same
// codes.

#pragma once

/// mpirun returns the code with which the library aborted the job. If the library did not abort it, mpirun returns the
/// code of the first rank whose exit code is not 0. If a signal killed that rank (abort() sends SIGABRT), mpirun
/// returns the code of the signal.
namespace lockstep::exit_code {

/// The program has done all its work.
inline constexpr int success = 0;
/// An exception has ended the program, or a result is wrong.
inline constexpr int failure = 1;
/// An option, an argument or an environment variable is wrong.
inline constexpr int usage = 2;
/// lockstep-doctor found something that will make a job fail.
inline constexpr int unfit = 3;
/// Data or a checkpoint is missing or corrupt.
inline constexpr int bad_data = 5;
/// A rank exited, died, or did not respond before the deadline (EX_UNAVAILABLE of <sysexits.h>).
inline constexpr int unavailable = 69;
/// The program has saved its state, and must be started again to continue (EX_TEMPFAIL of <sysexits.h>).
inline constexpr int saved = 75;

}  // namespace lockstep::exit_code
