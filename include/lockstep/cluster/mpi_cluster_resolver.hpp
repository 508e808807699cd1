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
  /// Names of the jobs, each with its number of tasks. The first job gets the lowest ranks, and so on. If the list is
  /// empty, all ranks are in the job "worker".
  std::vector<std::pair<std::string, int>> jobs = {};
  /// Port of the first rank of each host; the further ranks of a host get the following ports.
  int port_base = 8888;
};

/// The cluster of the ranks of MPI_COMM_WORLD. An address is "<host>:<port>". The host names come from MPI, not from
/// variables of the launcher.
class LOCKSTEP_API MpiClusterResolver : public ClusterResolver {
 public:
  /// Collective over MPI_COMM_WORLD; all ranks pass the same options.
  /// Throws Error(failed_precondition) if MPI is not initialized; Error(deadline_exceeded) if some ranks do not make
  /// this call within LOCKSTEP_TIMEOUT (300 s by default); and Error(invalid_argument), on all ranks, if the jobs have
  /// in total another number of tasks than there are ranks.
  explicit MpiClusterResolver(const MpiResolverOptions& options = {});
};

}  // namespace lockstep
