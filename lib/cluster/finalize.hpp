// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Finalizes MPI with a deadline. MPI_Finalize itself waits for all ranks of the job without a time limit.

#pragma once

#include "base/process.hpp"
#include "bindings/mpi/mpi.hpp"

#include <chrono>
#include <memory>
#include <span>

namespace lockstep::detail {

struct FinalizeOptions {
  std::chrono::milliseconds warn_after;  ///< time after which the missing ranks are logged, once
  std::chrono::milliseconds fail_after;  ///< time after which the job is aborted
  /// Whether the Job never had an attachment. If so, and if other ranks are missing after 100 ms, sends a message with
  /// absence_tag to all ranks.
  bool is_absent = false;
};

/// Finalizes MPI when all ranks have called this function. If a rank does not call this function within `fail_after`,
/// or if the process of a missing rank has ended, logs the missing ranks and aborts the job with
/// exit_code::unavailable. `processes[r]` watches the process of rank r; the pointer is null for this rank and for
/// ranks of other nodes. `job` is a communicator of all ranks. If `job` is null, this function waits in MPI_Finalize,
/// and cannot name missing ranks. Collective.
void finalize_within_deadline(const mpi::Comm* job, std::span<const std::shared_ptr<const ProcessWatch>> processes,
                              const FinalizeOptions& options);

}  // namespace lockstep::detail
