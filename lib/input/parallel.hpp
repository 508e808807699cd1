// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements made by several threads, in the order in which they are asked for.

#pragma once

#include "input/node.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep::input {

/// Makes one element; called on any thread.
using Job = std::function<void(Leaves& result)>;
/// The next job, nothing at the end; called by one thread at a time.
using NextJob = std::function<std::optional<Job>()>;

/// The results of the jobs, in their order. `threads` threads work ahead, on at most 2 * `threads` elements. What a job
/// or `next` throws reaches the reader in its place. The destructor waits for the jobs that are under way.
[[nodiscard]] std::unique_ptr<Cursor> parallel_cursor(NextJob next, int threads,
                                                      std::shared_ptr<MemoryResource> memory);

/// Calls `make(i)` for all i below `count`, on the caller's thread and others, `threads` in all. Throws what the call
/// of the lowest i threw.
void in_parallel(std::size_t count, int threads, const std::function<void(std::size_t i)>& make);

}  // namespace lockstep::input
