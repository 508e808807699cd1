// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The checks of the arguments of a collective.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/item.hpp>

#include "collectives/call/call.hpp"
#include "collectives/call/host_item.hpp"

#include <span>
#include <vector>

namespace lockstep::detail {

/// Makes all checks of `call` and `items` that rank `rank` can make without the other ranks. Local. Throws
/// Error(invalid_argument), which names the operation, the tensor, the values and the rule, and Error(unavailable) for
/// a GPU that does not exist.
[[nodiscard]] std::vector<HostItem> check_items(const Call& call, const ReplicaLayout& layout, int rank,
                                                std::span<const Item> items);

}  // namespace lockstep::detail
