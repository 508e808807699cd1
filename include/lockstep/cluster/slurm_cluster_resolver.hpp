// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct SlurmOptions {
  /// Jobs and their numbers of tasks, in the order of Slurm's task numbers. Empty: all tasks are "worker".
  std::vector<std::pair<std::string, int>> jobs = {};
  /// The port of the first task of each node; the next ones count up.
  int port_base = 8888;
  /// Default: SLURM_GPUS_ON_NODE, if it is there.
  std::optional<int> gpus_per_node = std::nullopt;
  /// Default: gpus_per_node divided by the most tasks that a node has, rounded down.
  std::optional<int> gpus_per_task = std::nullopt;
};

/// The tasks of the running Slurm step, as `srun` numbers them. Addresses are "<node>:<port>".
///
/// Reads SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE and SLURM_DISTRIBUTION. No
/// variable is set: a rank chooses its accelerator among those that it sees, as NCCL wants all of a node seen by all of
/// its ranks.
///
/// For programs that `srun` started. Under mpirun these variables are those of mpirun's daemon, the same for every rank
/// of a node; there MpiClusterResolver has the same cluster from the communicator.
class LOCKSTEP_API SlurmClusterResolver : public ClusterResolver {
 public:
  /// Local. Throws Error(failed_precondition) outside of a Slurm step, and under mpirun; Error(invalid_argument) for a
  /// variable that cannot be read, for numbers of tasks that differ from Slurm's, for more accelerators than a node
  /// has, and where Slurm has spread tasks in a way that its variables do not tell.
  explicit SlurmClusterResolver(const SlurmOptions& options = {});
};

}  // namespace lockstep
