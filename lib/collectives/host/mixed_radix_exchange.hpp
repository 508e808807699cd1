// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce by the mixed-radix schedules of schedule/mixed_radix.
//
// The vector is cut into chunks, each of which goes through all stages; while one is added another is on the wire, and
// while one is inside the node another is between nodes. A rank starts the steps of its chunks in one order that all
// ranks have: chunk c enters stage s when chunk c + 2 enters stage s - 1. So messages between a pair match without
// tags.
//
// Where the ranks of a node share memory, the first stage is done there: a rank reads its lane of all inputs of its
// node, and who gets results of that lane from other nodes writes them to all outputs of its node.
//
// Cost: see schedule/mixed_radix; and 3 n bytes of staging memory at most, less the more chunks there are.

#pragma once

#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "transport/shm/node_group.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// `descriptor` is of an all_reduce; `items` were checked. The views stay untouched until the operation is done. With
/// `group`, that of the local ranks in a job of several nodes, `schedule` begins in the node.
[[nodiscard]] std::shared_ptr<Operation> make_mixed_radix_exchange(const Descriptor& descriptor,
                                                                   std::shared_ptr<const RankSchedule> schedule,
                                                                   int rank, std::vector<HostItem> items,
                                                                   NodeGroup* group = nullptr);

}  // namespace lockstep::detail
