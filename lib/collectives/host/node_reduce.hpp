// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce and reduce inside a node, through memory that all ranks see: the owner of a slice reads all inputs of the
// node, adds them along the canonical tree in registers and writes all outputs, in one pass.
//
// Up to `flat_bytes` everybody puts a copy of everything on its board and adds everything: one crossing. Above, slices
// in place: two crossings, and every byte is read once and written once. Memory that the others cannot see is staged in
// rounds: two crossings each. (Movement-avoiding reduction, Peng et al., SC 2023.)

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/host/host_item.hpp"
#include "collectives/operation.hpp"
#include "transport/shm/node_group.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// Sizes that decide how a reduction is done, never what it gives. Equal on all ranks.
struct NodeReduceTuning {
  std::size_t flat_bytes = 2048;                     ///< at most this much per rank goes over the boards
  std::size_t round_bytes = std::size_t{512} << 10;  ///< per replica, of memory that is staged
};

/// An all_reduce or reduce over `group`, which has one member for each rank of `layout`.
[[nodiscard]] std::shared_ptr<Operation> make_node_reduce(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                          NodeGroup& group, std::vector<HostItem> items,
                                                          const NodeReduceTuning& tuning = {});

}  // namespace lockstep::detail
