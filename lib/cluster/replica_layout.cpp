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
  if (counts_.empty()) detail::throw_error(Code::invalid_argument, "replica layout: the list of counts is empty");
  for (const int count : counts_) {
    if (count < 1) {
      detail::throw_error(Code::invalid_argument,
                          "replica layout {}: rank {} has {} replicas; every rank must have at least 1",
                          to_string(*this), first_.size() - 1, count);
    }
    first_.push_back(first_.back() + count);
  }
}

int ReplicaLayout::rank_of(int replica) const {
  if (replica < 0 || replica >= replicas()) throw std::out_of_range("replica layout: no such replica id");
  return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), replica) - first_.begin()) - 1;
}

std::string to_string(const ReplicaLayout& layout) { return fmt::format("[{}]", fmt::join(layout.counts(), ", ")); }

}  // namespace lockstep
