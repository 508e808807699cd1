// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions that make the operations on host memory. The caller must have checked `items`, and must not access the
// tensors until the operation is complete.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/carried_data.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/engine/parallel_loop.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "schedule/levels.hpp"
#include "transport/shm/node_group.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Sizes that select the path of data inside a node. They must be equal on all ranks, and never change results.
struct NodeTuning {
  /// If the inputs of each rank have at most this number of bytes, they travel through the payloads (NodeGroup).
  std::size_t flat_bytes = 2048;
  std::size_t round_bytes = std::size_t{512} << 10;  ///< bytes per replica in one round of staged inputs
};
/// The sizes for reductions between `ranks` ranks: through the payloads, each rank reads the inputs of all ranks,
/// so the limit is lower with many ranks.
[[nodiscard]] constexpr NodeTuning tuning_for(int ranks) noexcept {
  NodeTuning tuning;
  if (ranks > Levels::most_neighbours)
    tuning.flat_bytes = std::max<std::size_t>(64, 4096 / static_cast<std::size_t>(ranks) / 64 * 64);
  return tuning;
}

/// An all_reduce, reduce or reduce_scatter inside a node. `group` has one member for each rank of `layout`. If `loop`
/// is not null, threads of this rank's other replicas share the work of this rank through `loop`.
[[nodiscard]] std::shared_ptr<Operation> make_node_reduce(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                          NodeGroup& group, const std::vector<HostItem>& items,
                                                          const NodeTuning& tuning = {},
                                                          std::shared_ptr<ParallelLoop> loop = nullptr);

/// An all_reduce in the levels of a node. `group` has one member for each rank of the schedule's layout; `schedule` is
/// a result of make_level_schedule.
[[nodiscard]] std::shared_ptr<Operation> make_level_reduce(const Descriptor& descriptor,
                                                           std::shared_ptr<const RankSchedule> schedule,
                                                           NodeGroup& group, const std::vector<HostItem>& items);

/// A broadcast, all_gather, gather or barrier inside a node. `group` has one member for each rank of `layout`.
[[nodiscard]] std::shared_ptr<Operation> make_node_copy(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                        NodeGroup& group, const std::vector<HostItem>& items,
                                                        const NodeTuning& tuning = {});

/// An all_reduce, reduce, reduce_scatter, broadcast, all_gather, gather or barrier by messages, as a direct exchange.
[[nodiscard]] std::shared_ptr<Operation> make_exchange(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                       int rank, std::vector<HostItem> items);

/// A scatter or all_to_all by messages, and through shared memory between the ranks of `group`. `group` is the group of
/// this node's ranks, which must be consecutive; null if ranks share no memory. `is_even`: all nodes have the same
/// numbers of ranks and replicas; a rank without `group` counts as a node.
[[nodiscard]] std::shared_ptr<Operation> make_part_exchange(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                            int rank, std::vector<HostItem> items,
                                                            NodeGroup* group = nullptr, bool is_even = false);

/// Whether a replica's input or output is its part of a larger tensor of the same item, in host memory.
[[nodiscard]] bool is_in_place(const Call& call, const ReplicaLayout& layout, int rank,
                               std::span<const HostItem> items);
/// A call that is in place. `make` makes the operation for items whose tensors are apart.
[[nodiscard]] std::shared_ptr<Operation> make_in_place(
    const Call& call, const ReplicaLayout& layout, int rank, std::vector<HostItem> items,
    const std::function<std::shared_ptr<Operation>(std::vector<HostItem>)>& make);

/// An all_reduce, reduce, reduce_scatter, broadcast, or a gather or scatter of any form in the stages of `schedule`.
/// `group` is null, or the group of this node's ranks. If `group` is not null, RankSchedule::begins_in_node must be
/// true for `schedule`.
[[nodiscard]] std::shared_ptr<Operation> make_mixed_radix_exchange(const Descriptor& descriptor,
                                                                   std::shared_ptr<const RankSchedule> schedule,
                                                                   int rank, std::vector<HostItem> items,
                                                                   NodeGroup* group = nullptr);

/// Whether the data of this operation is small enough to travel with the agreement. The result is equal
/// on all ranks that make the same call.
[[nodiscard]] bool is_carried(const Descriptor& descriptor, const CarrySteps& steps, std::span<const HostItem> items);

/// An operation whose data travels with the agreement. `group` is the group of this node's ranks in a job of several
/// nodes; null if ranks do not share memory, and for the levels of a node.
[[nodiscard]] std::shared_ptr<Operation> make_carried(const Descriptor& descriptor,
                                                      std::shared_ptr<const CarrySteps> steps, NodeGroup* group,
                                                      std::vector<HostItem> items);

/// An all_reduce with Order::any, by the reduction of the transport. Transport::has_native_all_reduce must be true for
/// the accumulation type of every item.
[[nodiscard]] std::shared_ptr<Operation> make_native_all_reduce(const Descriptor& descriptor,
                                                                const ReplicaLayout& layout, int rank,
                                                                std::vector<HostItem> items);

}  // namespace lockstep::detail
