// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What must hold before a run, where the options alone do not show it. All throw OptionError.

#pragma once

#include "agenda.hpp"
#include "case.hpp"
#include "options.hpp"
#include "peer.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>

#include <vector>

namespace perf {

/// Where this rank's replicas have their buffers: on GPUs, which must be here and, to be compared with NCCL, have it.
/// Collective over the job.
[[nodiscard]] std::vector<lockstep::Device> devices_of_replicas(const Options& options,
                                                                const lockstep::Communicator& job);

/// Before hours of measuring, not after: what will be written can be, and gnuplot is there where it will draw. Local.
void check_files(const Options& options, int rank);
/// The root is a rank. Local.
void check_job(const Options& options, const Job& job);
/// The ranks of a node find memory for what is on the agenda, on the host and on its GPUs. Local.
void check_memory(const Options& options, const Agenda& agenda, const Job& job, int ranks_of_node);
/// No two replicas of a node are on one GPU, of which NCCL takes no more than one. Collective over the job.
void check_own_gpus(const Job& job, const OwnComm& node);

}  // namespace perf
