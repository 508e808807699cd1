// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/replica_layout.hpp>

#include "base/check.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace lockstep {

ReplicaLayout::ReplicaLayout(std::vector<int> counts) : counts_(std::move(counts)), first_{0} {
  if (counts_.empty())
    detail::throw_error(Code::invalid_argument, "ReplicaLayout: the list of counts is empty; pass one count per rank");
  for (const int count : counts_) {
    if (count < 1) {
      detail::throw_error(Code::invalid_argument,
                          "ReplicaLayout: the number of replicas (local_replicas) is {} on rank {}; it must be at "
                          "least 1 on every rank",
                          count, first_.size() - 1);
    }
    first_.push_back(first_.back() + count);
  }
}

int ReplicaLayout::rank_of(int replica) const {
  if (replica < 0 || replica >= replicas()) {
    throw std::out_of_range(
        fmt::format("ReplicaLayout::rank_of: replica is {}, but the ids are 0 to {}", replica, replicas() - 1));
  }
  return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), replica) - first_.begin()) - 1;
}

std::string to_string(const ReplicaLayout& layout) { return fmt::format("[{}]", fmt::join(layout.counts(), ", ")); }

}  // namespace lockstep
