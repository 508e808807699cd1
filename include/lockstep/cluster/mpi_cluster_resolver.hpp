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
  /// Collective over MPI_COMM_WORLD; all ranks pass the same options.
  /// Throws Error(failed_precondition) if MPI is not active; Error(deadline_exceeded) if some ranks have not come
  /// within LOCKSTEP_TIMEOUT (300 s by default); and Error(invalid_argument), on all ranks, unless the jobs have as
  /// many tasks as there are ranks.
  explicit MpiClusterResolver(const MpiResolverOptions& options = {});
};

}  // namespace lockstep
