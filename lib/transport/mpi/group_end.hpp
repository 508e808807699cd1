// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the endpoints of the ranks of an MPI job have in common, however data moves between nodes.

#pragma once

#include "bindings/mpi/mpi.hpp"
#include "cluster/end_of_job.hpp"
#include "transport/mpi/mpi_group.hpp"
#include "transport/shm/control_queues.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

class GroupEnd : public Transport {
 public:
  int rank() const noexcept final { return ranks_.rank; }
  int size() const noexcept final { return ranks_.size(); }
  int nodes() const noexcept final { return nodes_; }
  std::vector<int> ranks_on_same_processors() const final { return ranks_.on_same_processors; }
  std::span<const int> node_leaders() const noexcept final { return ranks_.leaders; }
  std::string_view why_chosen() const noexcept final {
    return ranks_.why_chosen ? std::string_view(*ranks_.why_chosen) : std::string_view();
  }
  NodeGroup* node_group() noexcept final { return nodes_ == 1 ? group_.get() : nullptr; }
  NodeGroup* local_group() noexcept final { return nodes_ > 1 ? group_.get() : nullptr; }
  std::span<const ProcessId> processes() const noexcept final { return ranks_.processes; }
  GroupIdentity identity() const final {
    const std::vector<int> of_context =
        ranks_.job_ranks != nullptr ? *ranks_.job_ranks : mpi::ranks_in(ranks_.context->comm(), MPI_COMM_WORLD);
    GroupIdentity identity{number_, {}};
    for (int rank = 0; rank < size(); ++rank) {
      identity.job_ranks.push_back(of_context[static_cast<std::size_t>(context_rank(rank))]);
    }
    return identity;
  }
  std::unique_ptr<NewGroup> begin_group() final { return std::make_unique<MpiGroup>(ranks_); }

 protected:
  GroupEnd(MpiRanks ranks, std::uint64_t number, std::unique_ptr<NodeGroup> group)
      : ranks_(std::move(ranks)), nodes_(ranks_.nodes()), number_(number), group_(std::move(group)) {
    if (nodes_ > 1) note_other_nodes();
    if (group_ && group_->size() > 1) queues_ = std::make_unique<ControlQueues>(*group_, ranks_.ranks_here());
  }

  [[nodiscard]] int context_rank(int rank) const { return ranks_.context_ranks[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool has_queue_to(int rank) const { return queues_ && queues_->reach(rank); }

  MpiRanks ranks_;
  const int nodes_;
  const std::uint64_t number_;
  const std::unique_ptr<NodeGroup> group_;
  std::unique_ptr<ControlQueues> queues_;  // to the other ranks of the node; null if there are none, or no group
};

}  // namespace lockstep::detail
