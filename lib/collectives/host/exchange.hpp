// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The host collectives as one pattern: direct exchange.
//
// The result, a list of tensors, is cut into slices, one per rank, its owner. First every rank sends each owner what
// that owner's slice needs: its partial results (a reduction), its part of the value (a broadcast's root), nothing (a
// gather: the owner has it all). The owner makes its slice. Then owners send their slices to those who want them. Small
// results skip the cut: everybody who wants the result gets everything and makes all of it.
//
// Cost of an all_reduce of n bytes over P ranks: 2 (P-1) messages and 2 (P-1)/P n bytes sent per rank where ranks own
// aligned powers of two of replicas (several partials per rank otherwise, see aligned_blocks); P-1 messages of n bytes
// when small. Steps: 2 or 1. Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH
// (2005), with a direct reduce-scatter.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// `descriptor` says what is to be done; `items` were checked. The views stay untouched until the operation is done.
[[nodiscard]] std::shared_ptr<Operation> make_exchange(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                       int rank, std::vector<HostItem> items);

}  // namespace lockstep::detail
