// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Computes elements on several threads, and returns them in order.

#pragma once

#include "input/node.hpp"
#include "input/rows.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep::input {

/// The computation of one element.
struct Job {
  std::function<void(Leaves& result)> make;  ///< called on any thread
  RowsBefore before = {};                    ///< the rows of the element that `make` transforms
};
/// Returns the next job, or nullopt at the end; called by one thread at a time.
using NextJob = std::function<std::optional<Job>()>;

/// A cursor over the results of the jobs, in the order of the jobs. `threads` threads compute up to 2 * `threads`
/// elements ahead. If a job or `next` throws, the exception is rethrown in place of the element. The destructor waits
/// for running jobs.
[[nodiscard]] std::unique_ptr<Cursor> parallel_cursor(NextJob next, int threads,
                                                      std::shared_ptr<MemoryResource> memory);

/// Calls `make(i)` for all i below `count`, on `threads` threads including the caller's. If calls throw, rethrows the
/// exception of the call with the lowest i.
void in_parallel(std::size_t count, int threads, const std::function<void(std::size_t i)>& make);

}  // namespace lockstep::input
