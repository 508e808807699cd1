// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every replica gets a part of its own from every source: scatter (one source, the root's input) and all_to_all (the
// inputs of all replicas).
//
// One message from each rank to each other rank that it has something for, all posted at once, the next rank's first:
// the direct algorithm ("spread out" in MPICH), P-1 messages and (P-1)/P of the inputs' bytes per rank. In an
// all_to_all_v the numbers of rows are compared first, see RowAgreement.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// `descriptor` says what is to be done; `items` were checked. The views stay untouched until the operation is done.
[[nodiscard]] std::shared_ptr<Operation> make_part_exchange(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                            int rank, std::vector<HostItem> items);

}  // namespace lockstep::detail
