// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks before a run that need more than the options. All functions throw OptionError.

#pragma once

#include "bench/perf/case.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/peer.hpp"
#include "bench/perf/run_plan.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>

#include <vector>

namespace perf {

/// The devices of this rank's replicas. With --memory cuda these are GPUs; they must exist, and NCCL too if it is
/// compared with. Collective over the job.
[[nodiscard]] std::vector<lockstep::Device> devices_of_replicas(const Options& options,
                                                                const lockstep::Communicator& job);

/// Checks that output files are writable and that the program that draws a plot exists if it is needed, before hours of
/// measuring and not after. Local.
void check_files(const Options& options, int rank);
/// Checks that the root is a rank of the job. Local.
void check_job(const Options& options, const Job& job);
/// Checks that the node has enough memory for the plan, on the host and on its GPUs. Local.
void check_memory(const Options& options, const RunPlan& plan, const Job& job, int ranks_of_node);
/// Checks that no two replicas of a node share a GPU, since NCCL takes one per GPU. Collective over the job.
void check_own_gpus(const Job& job, const OwnComm& node);

}  // namespace perf
