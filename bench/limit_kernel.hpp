// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Loads, additions and stores of a reduction, and nothing else: no flags, no messages, no checks.

#pragma once

#include <cstdint>

namespace perf {

/// Adds `reads` slices of `count` floats that begin at `source` and every `stride` floats from there, and stores the
/// sums to each of `writes` slices of `target` that lie likewise. `target` may be `source`. Local.
void sum_slices(const float* source, int reads, float* target, int writes, std::int64_t count, std::int64_t stride);

}  // namespace perf
