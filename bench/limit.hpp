// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What memory alone allows: the loads and stores that a rank has at least, in all ranks at once, on memory of their
// own, without synchronisation. A collective of ranks that share memory cannot be faster than this, but by caches.

#pragma once

#include "case.hpp"
#include "contestant.hpp"

#include <lockstep/device/memory_resource.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace perf {

/// Of one rank when every rank reads its slice of all inputs where they lie, and writes it to all outputs.
struct Traffic {
  int reads = 0;  ///< slices
  int writes = 0;
  std::int64_t slice_bytes = 0;
};
[[nodiscard]] Traffic least_traffic(const Case& what, const Job& job);

/// Bytes of memory that the contestants need on a rank. Local.
[[nodiscard]] std::int64_t limit_bytes(const Traffic& traffic, Placement placement);

/// The kernels that stand for the limit; the faster one is it. A kernel that sums, a copy with as much traffic, or
/// both; none where nothing moves on any rank. Local; the same number on every rank.
[[nodiscard]] std::vector<std::unique_ptr<Contestant>> limit_contestants(
    const Case& what, const Job& job, const std::shared_ptr<lockstep::MemoryResource>& resource);

}  // namespace perf
