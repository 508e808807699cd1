// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What this rank alone can see to be wrong with the arguments of a collective.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/item.hpp>

#include "collectives/call/descriptor.hpp"
#include "collectives/call/host_item.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// The call under check.
struct Call {
  OperationKind kind = OperationKind::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = -1;
  int rank = 0;
  std::span<const std::int64_t> rows = {};          ///< of the parts, by replica; all_to_all_v: that are sent
  std::span<const std::int64_t> receive_rows = {};  ///< all_to_all_v
};

/// Checks the call and its items; throws Error(invalid_argument) that names the operation, the item, the values and the
/// rule.
[[nodiscard]] std::vector<HostItem> check_items(const Call& call, const ReplicaLayout& layout,
                                                std::span<const Item> items);

}  // namespace lockstep::detail
