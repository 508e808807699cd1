// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The environment of a measurement, as far as a reader needs it to judge or repeat the measurement.

#pragma once

#include "bench/perf/gpus.hpp"
#include "bench/perf/peer.hpp"

#include <lockstep/cluster/environment.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace perf {

/// The ranks that share memory with this one, in the order of the job's ranks. Collective over the job.
[[nodiscard]] OwnComm::Take node_of_this_rank();

/// Properties that differ between nodes are those of rank 0's node.
struct Machine {
  std::string version;  ///< version of lockstep
  std::string date;     ///< start of the run, UTC
  std::string cpu;
  int ranks = 1;
  int nodes = 1;
  int ranks_of_node = 1;
  int cores_of_node = 1;        ///< cores that its ranks may use together
  int least_cores_of_rank = 1;  ///< minimum over all ranks of the job
  int most_cores_of_rank = 1;
  double load = 0;  ///< load average of the last minute, before the run
  std::string mpi;
  std::string thread_level;
  bool mpi_yields = false;    ///< MPI yields its core while it waits, by its own setting
  std::string kernel_target;  ///< instruction set of lockstep's kernels
  std::int64_t page_bytes = 0;
  std::string transparent_hugepages;  ///< always, madvise or never
  Gpus gpus;
  std::map<std::string, std::string> variables;  ///< those that configure lockstep, MPI, CUDA or NCCL
};

/// Collective over the job. Complete on rank 0 only.
[[nodiscard]] Machine describe_machine(const lockstep::Environment& environment, const Job& job, const OwnComm& node);

/// Memory available on this node, in bytes; 0 if unknown. Local.
[[nodiscard]] std::int64_t available_memory_bytes();

}  // namespace perf
