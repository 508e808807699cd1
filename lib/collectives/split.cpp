// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which ranks form a communicator when one is split.

#include <lockstep/collectives/communicator.hpp>

#include "collectives/communicator_state.hpp"
#include "collectives/make_communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lockstep {
namespace {

/// The arguments of one rank.
struct SplitArguments {
  std::int32_t color = -1;  ///< negative: in no group
  std::int32_t key = 0;
};

/// The ranks of the same color as `rank`, itself included, by key and, for equal keys, by rank; none if its color is
/// negative.
std::vector<int> members_of_group(std::span<const SplitArguments> by_rank, int rank) {
  const auto arguments = [&](int of_rank) { return by_rank[static_cast<std::size_t>(of_rank)]; };
  std::vector<int> members;
  if (arguments(rank).color < 0) return members;
  for (int other = 0; other < static_cast<int>(by_rank.size()); ++other) {
    if (arguments(other).color == arguments(rank).color) members.push_back(other);
  }
  std::sort(members.begin(), members.end(),
            [&](int a, int b) { return std::pair(arguments(a).key, a) < std::pair(arguments(b).key, b); });
  return members;
}

}  // namespace

std::optional<Communicator> Communicator::split(int color, int key, const CommunicatorOptions& options,
                                                std::source_location where) const {
  // in order with all that was posted before, and with a deadline, which splitting itself does not have
  const std::vector<SplitArguments> own(static_cast<std::size_t>(local_replicas()), SplitArguments{color, key});
  const std::vector<SplitArguments> by_replica =
      state_->gather_from_replicas<SplitArguments>(own, {.order = std::nullopt, .name = "split", .where = where});
  std::vector<SplitArguments> by_rank;
  for (int other = 0; other < size(); ++other)
    by_rank.push_back(by_replica[static_cast<std::size_t>(layout().first(other))]);
  auto transport = state_->engine->split_transport(members_of_group(by_rank, rank()));
  if (!transport) return std::nullopt;
  return CommunicatorAccess::make(std::move(transport), options, std::nullopt, {}, state_->engine->family());
}

}  // namespace lockstep
