// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/replica_layout.hpp>

#include "base/check.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace lockstep {

struct ReplicaLayout::Lists {
  std::vector<int> counts;
  std::vector<int> first;
};

ReplicaLayout::ReplicaLayout() : ReplicaLayout(std::vector<int>{1}) {}
ReplicaLayout::ReplicaLayout(const ReplicaLayout&) noexcept = default;
ReplicaLayout& ReplicaLayout::operator=(const ReplicaLayout&) noexcept = default;
ReplicaLayout::~ReplicaLayout() = default;

ReplicaLayout::ReplicaLayout(std::vector<int> counts) {
  if (counts.empty())
    detail::throw_error(Code::invalid_argument, "ReplicaLayout: the list of counts is empty; pass one count per rank");
  std::vector<int> first{0};
  for (const int count : counts) {
    if (count < 1) {
      detail::throw_error(Code::invalid_argument,
                          "ReplicaLayout: the number of replicas (local_replicas) is {} on rank {}; it must be at "
                          "least 1 on every rank",
                          count, first.size() - 1);
    }
    first.push_back(first.back() + count);
  }
  lists_ = std::make_shared<const Lists>(Lists{std::move(counts), std::move(first)});
  counts_ = lists_->counts.data();
  first_ = lists_->first.data();
  ranks_ = static_cast<int>(lists_->counts.size());
}

int ReplicaLayout::rank_of(int replica) const {
  if (replica < 0 || replica >= replicas()) {
    throw std::out_of_range(
        fmt::format("ReplicaLayout::rank_of: replica is {}, but the ids are 0 to {}", replica, replicas() - 1));
  }
  return static_cast<int>(std::upper_bound(first_, first_ + ranks_ + 1, replica) - first_) - 1;
}

std::span<const int> ReplicaLayout::counts() const noexcept { return lists_->counts; }

void ReplicaLayout::throw_no_rank(int rank) {
  throw std::out_of_range(fmt::format("ReplicaLayout: there is no rank {}", rank));
}

bool operator==(const ReplicaLayout& a, const ReplicaLayout& b) noexcept {
  return a.counts().data() == b.counts().data() || std::ranges::equal(a.counts(), b.counts());  // copies share a list
}

std::string to_string(const ReplicaLayout& layout) { return fmt::format("[{}]", fmt::join(layout.counts(), ", ")); }

}  // namespace lockstep
