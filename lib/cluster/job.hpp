// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The job as an Environment has found it: the base of the communicators over MPI_COMM_WORLD.

#pragma once

#include "base/mutex.hpp"
#include "base/process.hpp"
#include "bindings/mpi/mpi.hpp"
#include "cluster/settings.hpp"

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// The tag, on the communicator of a Job, of the message to all ranks from one that is about to finalize MPI and whose
/// Job never had an attachment.
inline constexpr int absence_tag = 16'382;

/// The ranks of MPI_COMM_WORLD.
struct Job {
  mpi::Comm comm;                    ///< a duplicate of MPI_COMM_WORLD for the library's own messages
  mpi::Nodes nodes;                  ///< nodes of its ranks
  std::vector<ProcessId> processes;  ///< by rank; unknown for ranks of other nodes
  Mutex mutex;
  /// The object that a higher layer keeps with the job. It is destroyed before `comm`.
  std::shared_ptr<void> attachment LOCKSTEP_GUARDED_BY(mutex);
};

/// The job of the Environment of this process; null if there is none. Thread-safe.
[[nodiscard]] std::shared_ptr<Job> job_of_this_process();
/// Sets it; null ends it. Called by Environment.
void set_job(std::shared_ptr<Job> job);

/// Calls `test` until it returns true, because all ranks of the job have created their `object`. Warns once, and throws
/// Error(deadline_exceeded), by the time limits of `settings`.
void await_all_ranks(const std::function<bool()>& test, const Settings& settings, std::string_view object);

}  // namespace lockstep::detail
