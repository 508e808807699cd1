// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>

#include <optional>
#include <string>
#include <string_view>
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

/// The hosts that a list in Slurm's syntax names, in its order: "n[01-03,7],m5-[1-2]" is n01, n02, n03, n7, m5-1, m5-2.
/// A number keeps the width of the range's first; several brackets in a name are combined, the last one fastest. Local.
///
/// Throws Error(invalid_argument) that says where in the text and what: for an empty name, brackets that are not closed
/// or stand in one another, a range that is no pair of numbers or goes down, a character that no host's name has, and
/// above 65536 hosts (Slurm's own limit) or 255 characters in a name.
[[nodiscard]] LOCKSTEP_API std::vector<std::string> expand_hostlist(std::string_view text);

/// The numbers of a list in the syntax of SLURM_TASKS_PER_NODE: "3(x2),2,1" is 3, 3, 2, 1. Local.
/// Throws Error(invalid_argument) that says where and what; a number is at least 1, and there are at most 65536.
[[nodiscard]] LOCKSTEP_API std::vector<int> expand_tasks_per_node(std::string_view text);

}  // namespace lockstep
