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
  /// Jobs and their numbers of tasks, in the order of ranks. Empty: all ranks are "worker".
  std::vector<std::pair<std::string, int>> jobs = {};
  /// The port of the first rank of each host; the next ones count up.
  int port_base = 8888;
};

/// The ranks of MPI_COMM_WORLD. Addresses are "<host>:<port>". Hosts come from MPI, however the launcher has spread the
/// ranks, and whatever its variables say.
class LOCKSTEP_API MpiClusterResolver : public ClusterResolver {
 public:
  /// Collective over MPI_COMM_WORLD; all ranks give the same options. Waits without a deadline for ranks that do not
  /// come: make it beside the Environment, at the start of `main`.
  /// Throws Error(failed_precondition) when MPI is not active, Error(invalid_argument), on all ranks, for jobs that
  /// are not as many tasks as ranks.
  explicit MpiClusterResolver(const MpiResolverOptions& options = {});
};

}  // namespace lockstep
