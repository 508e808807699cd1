// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The job of an Environment: the ranks on which communicators over MPI_COMM_WORLD are created.

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

/// Tag of a message on the communicator of a Job. Before a rank finalizes MPI, it waits for all ranks. If this takes
/// more than 100 ms, and if its Job never had an attachment, the rank sends this message to all ranks.
inline constexpr int absence_tag = 16'382;

/// The ranks of MPI_COMM_WORLD.
struct Job {
  mpi::Comm comm;                    ///< a duplicate of MPI_COMM_WORLD for the library's own messages
  mpi::Nodes nodes;                  ///< nodes of the ranks of `comm`
  std::vector<ProcessId> processes;  ///< processes of the ranks of this rank's node, in the order of their ranks
  Mutex mutex;
  /// The object that a higher layer stores with the job. The attachment is destroyed before `comm`.
  std::shared_ptr<void> attachment LOCKSTEP_GUARDED_BY(mutex);
};

/// The job of the Environment of this process; null if there is none. Thread-safe.
[[nodiscard]] std::shared_ptr<Job> job_of_this_process();
/// Sets the job of this process; null ends the job. Called by Environment.
void set_job(std::shared_ptr<Job> job);

/// Calls `test` until it returns true, which means that all ranks of the job have created their `object`. Logs a
/// warning once after `settings.warn_after`; throws Error(deadline_exceeded) after `settings.fail_after`.
void await_all_ranks(const std::function<bool()>& test, const Settings& settings, std::string_view object);

}  // namespace lockstep::detail
