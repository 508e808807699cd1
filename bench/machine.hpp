// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a measurement was made: what a reader must know to believe or repeat it.

#pragma once

#include "gpus.hpp"
#include "peer.hpp"

#include <lockstep/cluster/environment.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace perf {

/// The ranks that share memory with this one, in the order of the job's ranks. Collective over the job.
[[nodiscard]] OwnComm::Take node_of_this_rank();

/// Of rank 0's node where nodes can differ.
struct Machine {
  std::string version;  ///< of lockstep
  std::string date;     ///< start of the run, UTC
  std::string cpu;
  int ranks = 1;
  int nodes = 1;
  int ranks_of_node = 1;
  int cores_of_node = 1;        ///< that its ranks may use together
  int least_cores_of_rank = 1;  ///< over all ranks of the job
  int most_cores_of_rank = 1;
  double load = 0;  ///< of the last minute, before the run
  std::string mpi;
  std::string thread_level;
  bool mpi_yields = false;    ///< MPI gives its core away while it waits, as far as it says
  std::string kernel_target;  ///< the kind of processor that lockstep's sums are compiled for
  std::int64_t page_bytes = 0;
  std::string transparent_hugepages;  ///< always, madvise or never
  Gpus gpus;
  std::map<std::string, std::string> variables;  ///< those that steer lockstep, MPI, CUDA or NCCL
};

/// Collective over the job; whole on rank 0 only.
[[nodiscard]] Machine describe_machine(const lockstep::Environment& environment, const Job& job, const OwnComm& node);

/// Memory that this node could give to programs now, in bytes; 0 where unknown. Local.
[[nodiscard]] std::int64_t available_memory_bytes();

}  // namespace perf
