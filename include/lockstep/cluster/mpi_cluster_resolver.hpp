// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct MpiResolverOptions {
  /// Jobs with their numbers of tasks, in the order of ranks. Empty: all ranks are in the job "worker".
  std::vector<std::pair<std::string, int>> jobs = {};
  /// Port of the first rank of each host; further ranks of the host get the next ports.
  int port_base = 8888;
};

/// The ranks of MPI_COMM_WORLD. Addresses are "<host>:<port>". Host names come from MPI, not from variables of the
/// launcher.
class LOCKSTEP_API MpiClusterResolver : public ClusterResolver {
 public:
  /// Collective over MPI_COMM_WORLD; all ranks pass the same options. Has no deadline, so create it right after the
  /// Environment, at the start of `main`.
  /// Throws Error(failed_precondition) if MPI is not active, and Error(invalid_argument), on all ranks, unless the jobs
  /// have as many tasks as there are ranks.
  explicit MpiClusterResolver(const MpiResolverOptions& options = {});
};

}  // namespace lockstep
