// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The bounded end of a job in which something went wrong.

#pragma once

namespace lockstep::detail {

/// What errors of Environment itself carry as operation: every rank has them.
inline constexpr const char* environment_operation = "Environment";

/// From now on an exception that nobody catches prints its text and aborts the job, after 2 s in which other ranks can
/// print theirs. Errors that every rank has with the same text are printed by the lowest rank that ends of them.
void install_terminate_handler(int rank) noexcept;

/// Aborts the job 2 s from now, also if the program ends earlier; returns at once, so that the text of an exception
/// under way can still be printed by whoever catches it.
void abort_job_soon() noexcept;

}  // namespace lockstep::detail
