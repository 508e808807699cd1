// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The limit that memory sets: the least loads and stores of a rank, on all ranks at once, on each rank's own memory,
// without synchronisation. A collective of ranks that share memory cannot be faster than this, except by caches.

#pragma once

#include "bench/perf/case.hpp"
#include "bench/perf/implementation.hpp"

#include <lockstep/device/memory_resource.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace perf {

/// Traffic of one rank, if every rank reads its slice of all inputs in place and writes it to all outputs.
struct Traffic {
  int reads = 0;  ///< slices
  int writes = 0;
  std::int64_t slice_bytes = 0;
};
[[nodiscard]] Traffic least_traffic(const Case& what, const Job& job);

/// Bytes of memory that limit_implementations() need on a rank. Local.
[[nodiscard]] std::int64_t limit_bytes(const Traffic& traffic, Placement placement);

/// The kernels whose fastest is the limit: a kernel that sums, a copy with the same traffic, or both; none if no rank
/// moves data. Local; the same number of kernels on every rank.
[[nodiscard]] std::vector<std::unique_ptr<Implementation>> limit_implementations(
    const Case& what, const Job& job, const std::shared_ptr<lockstep::MemoryResource>& resource);

}  // namespace perf
