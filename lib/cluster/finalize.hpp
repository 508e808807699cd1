// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI_Finalize waits for all ranks of the job, for ever; this waits with a deadline.

#pragma once

#include "base/process.hpp"
#include "bindings/mpi/mpi.hpp"

#include <chrono>
#include <memory>
#include <span>

namespace lockstep::detail {

struct FinalizeOptions {
  std::chrono::milliseconds warn_after;  ///< then the missing ranks are logged, once
  std::chrono::milliseconds fail_after;  ///< then the job is aborted
  bool is_absent = false;                ///< the other ranks are told so, see absence_tag; else this rank has told them
};

/// Finalizes MPI when all ranks have called this. If a rank has not within `fail_after`, or its process has ended, logs
/// the missing ranks and aborts the job with exit_code::unavailable. `processes` are watched, by rank; null for other
/// ranks. `job` is a communicator of all ranks, for this call alone; without it, this waits in MPI_Finalize, and names
/// no rank. Collective.
void finalize_within_deadline(mpi::Comm job, std::span<const std::shared_ptr<const ProcessWatch>> processes,
                              const FinalizeOptions& options);

}  // namespace lockstep::detail
