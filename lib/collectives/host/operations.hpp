// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the operations on host memory. `items` were checked; the tensors are not to be touched until the operation is
// done.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/carried_data.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/engine/parallel_loop.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Sizes that decide by which path data travels inside a node, and never change results. Equal on all ranks.
struct NodeTuning {
  std::size_t flat_bytes = 2048;                     ///< up to this much per rank goes over the control blocks
  std::size_t round_bytes = std::size_t{512} << 10;  ///< bytes per replica in one round, if memory must be staged
};

/// An all_reduce, reduce or reduce_scatter inside a node. `group` has one member for each rank of `layout`. If given,
/// `loop` shares the work of this rank with threads of its other replicas.
[[nodiscard]] std::shared_ptr<Operation> make_node_reduce(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                          NodeGroup& group, const std::vector<HostItem>& items,
                                                          const NodeTuning& tuning = {},
                                                          std::shared_ptr<ParallelLoop> loop = nullptr);

/// A broadcast, all_gather, gather or barrier inside a node. `group` has one member for each rank of `layout`.
[[nodiscard]] std::shared_ptr<Operation> make_node_copy(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                        NodeGroup& group, const std::vector<HostItem>& items,
                                                        const NodeTuning& tuning = {});

/// An all_reduce, reduce, reduce_scatter, broadcast, all_gather, gather or barrier by messages: direct exchange.
[[nodiscard]] std::shared_ptr<Operation> make_exchange(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                       int rank, std::vector<HostItem> items);

/// A scatter or all_to_all by messages.
[[nodiscard]] std::shared_ptr<Operation> make_part_exchange(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                            int rank, std::vector<HostItem> items);

/// An all_reduce in stages. If `group` is given, the group of the local ranks in a job of several nodes, `schedule`
/// begins in the node.
[[nodiscard]] std::shared_ptr<Operation> make_mixed_radix_exchange(const Descriptor& descriptor,
                                                                   std::shared_ptr<const RankSchedule> schedule,
                                                                   int rank, std::vector<HostItem> items,
                                                                   NodeGroup* group = nullptr);

/// Whether the data of this operation travels with the agreement: it does if it is small. The same on all ranks that
/// agree.
[[nodiscard]] bool is_carried(const Descriptor& descriptor, const CarrySteps& steps, std::span<const HostItem> items);

/// Such an operation. `group` is that of the local ranks in a job of several nodes; null if ranks share no memory.
[[nodiscard]] std::shared_ptr<Operation> make_carried(const Descriptor& descriptor,
                                                      std::shared_ptr<const CarrySteps> steps, NodeGroup* group,
                                                      std::vector<HostItem> items);

/// An all_reduce in any order by the transport's own reduction. The accumulation type of every item must be one of the
/// transport's has_native_all_reduce.
[[nodiscard]] std::shared_ptr<Operation> make_native_all_reduce(const Descriptor& descriptor,
                                                                const ReplicaLayout& layout, int rank,
                                                                std::vector<HostItem> items);

}  // namespace lockstep::detail
