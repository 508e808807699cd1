// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/cluster_resolver.hpp>

#include "base/check.hpp"

namespace lockstep {

ClusterResolver::ClusterResolver(int rank, int ranks) : task_id_(rank) {
  if (rank < 0 || rank >= ranks) {
    detail::throw_error(Code::invalid_argument, "ClusterResolver: rank {} does not exist among {}; ranks are 0 to {}",
                        rank, ranks, ranks - 1);
  }
  std::vector<std::string>& workers = cluster_spec_[task_type_];
  for (int i = 0; i < ranks; ++i) workers.push_back(fmt::format("rank:{}", i));
}

}  // namespace lockstep
