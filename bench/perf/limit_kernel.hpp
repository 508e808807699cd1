// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The loads, additions and stores of a reduction alone: no flags, no messages, no checks.

#pragma once

#include <cstdint>

namespace perf {

/// Adds `reads` slices of `count` floats, which begin every `stride` floats from `source` on, and stores the sums to
/// each of `writes` slices of `target`, with the same stride. `target` may be `source`. Local.
void sum_slices(const float* source, int reads, float* target, int writes, std::int64_t count, std::int64_t stride);

}  // namespace perf
