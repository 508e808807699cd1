// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The same call by the MPI library.

#pragma once

#include "scale/scaled_call.hpp"

namespace lockstep::detail {

/// Simulated microseconds of the slowest rank in the second of two calls: the first one makes communicators. Sums are
/// charged as those of lockstep are. Collective.
[[nodiscard]] double run_native(ScaledCall& scaled);

}  // namespace lockstep::detail
