// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ending a job within a bounded time after a failure.

#pragma once

namespace lockstep::detail {

/// Operation of the errors that Environment itself throws. Every rank throws the same ones.
inline constexpr const char* environment_operation = "Environment";

/// Installs a terminate handler that prints the text of an uncaught exception and aborts the job 2 s later, so that
/// other ranks can print theirs. An error that is the same on every rank is printed by rank 0 only; another rank prints
/// it only if rank 0 does not abort the job first.
void install_terminate_handler(int rank) noexcept;

/// Schedules an abort of the job in 2 s, also if the program ends earlier. Returns at once, so that the handler of an
/// exception in flight can still print its text.
void abort_job_soon() noexcept;

}  // namespace lockstep::detail
