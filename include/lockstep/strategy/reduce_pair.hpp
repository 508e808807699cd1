// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The members of a batch_reduce_to whose values are of different kinds.

#pragma once

#include <lockstep/device/tensor.hpp>
#include <lockstep/strategy/destinations.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <variant>

namespace lockstep {

/// Dense and sparse values of all replicas, and single values that all replicas share.
using ReducibleValue = std::variant<PerReplica<Tensor>, PerReplica<IndexedSlices>, Mirrored<Tensor>, Tensor, Variable>;

/// What becomes of them: Mirrored<IndexedSlices> of PerReplica<IndexedSlices>, Mirrored<Tensor> of all others.
using ReducedValue = std::variant<Mirrored<Tensor>, Mirrored<IndexedSlices>>;

struct ReducePair {
  ReducibleValue value;
  Destinations destinations;
};

}  // namespace lockstep
