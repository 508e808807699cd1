// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The work of all ranks: MPI starts, rank 0 collects facts, commands measurements, and reports.

#pragma once

#include "doctor/facts.hpp"
#include "doctor/supervise.hpp"

#include <functional>

namespace doctor {

struct JobOptions {
  bool is_quick = false;
  double seconds = 10;        ///< of all measurements
  double start_seconds = 60;  ///< for MPI_Init_thread, and for answers of ranks
};

/// Runs this rank's part. Rank 0 calls `report` with what is known; its result is the exit code.
void run_job(const JobOptions& options, const Progress& progress, const std::function<int(const JobFacts&)>& report);

}  // namespace doctor
