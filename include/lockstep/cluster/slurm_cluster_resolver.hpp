// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The cluster of a Slurm job step, and functions that expand Slurm's compressed lists.

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
  /// Names of the jobs, each with its number of tasks. The first job gets the lowest task numbers of Slurm, and so on.
  /// If the list is empty, all tasks are in the job "worker".
  std::vector<std::pair<std::string, int>> jobs = {};
  /// Port of the first task of each node; the further tasks of a node get the following ports.
  int port_base = 8888;
  /// Number of GPUs of each node. Default: SLURM_GPUS_ON_NODE, if this variable is set.
  std::optional<int> gpus_per_node = std::nullopt;
  /// Number of GPUs of each task. Default: gpus_per_node divided by the largest number of tasks on a node, rounded
  /// down.
  std::optional<int> gpus_per_task = std::nullopt;
};

/// The cluster of the tasks of the running Slurm step, with the task numbers of `srun`. An address is "<node>:<port>".
///
/// Reads SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE and SLURM_DISTRIBUTION.
/// Sets no environment variable. In particular, it does not set CUDA_VISIBLE_DEVICES, because NCCL needs every rank to
/// see all GPUs of its node.
///
/// Use this class in programs that are started by `srun`. Under mpirun, these variables describe mpirun's daemon and
/// are equal on all ranks of a node. So use MpiClusterResolver under mpirun; it gets the same cluster from MPI.
class LOCKSTEP_API SlurmClusterResolver : public ClusterResolver {
 public:
  /// Local.
  /// Throws Error(failed_precondition) outside of a Slurm step, and under mpirun. Throws Error(invalid_argument) for a
  /// malformed variable, if the jobs have in total another number of tasks than the step, if the tasks of a node need
  /// more GPUs than the node has, and if the variables do not describe how Slurm has placed the tasks.
  explicit SlurmClusterResolver(const SlurmOptions& options = {});
};

/// Expands a host list in Slurm's syntax, in the order of the list: "n[01-03,7],m5-[1-2]" gives n01, n02, n03, n7,
/// m5-1, m5-2. The numbers of a range have at least as many digits as its first number. If a name has several brackets,
/// the last bracket varies fastest. Local.
///
/// Throws Error(invalid_argument), with the position in the text, for an empty name, unclosed or nested brackets, a
/// malformed or descending range, a character that is not allowed in host names, more than 65536 hosts (Slurm's own
/// limit), and a name of more than 255 characters.
[[nodiscard]] LOCKSTEP_API std::vector<std::string> expand_hostlist(std::string_view text);

/// Expands a list in the syntax of SLURM_TASKS_PER_NODE: "3(x2),2,1" gives 3, 3, 2, 1. Local.
/// Throws Error(invalid_argument), with the position in the text, for a malformed list, a number below 1, and more than
/// 65536 numbers.
[[nodiscard]] LOCKSTEP_API std::vector<int> expand_tasks_per_node(std::string_view text);

}  // namespace lockstep
