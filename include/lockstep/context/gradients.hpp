// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a backward pass does where the forward pass had a collective. There is no tape here: whoever differentiates by
// hand, or registers a function with a framework of its own, calls these.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/reduced.hpp>

#include <cstdint>
#include <utility>

namespace lockstep {
namespace detail {

/// `op`; Error(invalid_argument) unless it is sum or mean.
[[nodiscard]] LOCKSTEP_API ReduceOp differentiable(ReduceOp op);

/// The part of `upstream`, the gathered gradient, that belongs to this replica: `extent` steps along `axis`. All
/// replicas.
[[nodiscard]] LOCKSTEP_API Tensor own_part(ReplicaContext& replica, ConstTensorView upstream, int axis,
                                           std::int64_t extent);

}  // namespace detail

/// The gradient of `y = all_reduce(op, x)` with respect to this replica's x, where `upstream` is that of the loss of
/// this replica with respect to its y: all losses depend on every x, so it is all_reduce(op, upstream). A tree, as in
/// all_reduce. All replicas. Throws Error(invalid_argument) for an op other than sum and mean, and as all_reduce.
template <class Tree>
decltype(auto) all_reduce_gradient(ReplicaContext& replica, const ReduceOpArgument& op, Tree&& upstream) {
  const ReduceOp checked = op.op("all_reduce_gradient");
  return replica.all_reduce(detail::differentiable(checked), std::forward<Tree>(upstream));
}

/// The gradient of `y = all_gather(x, axis)` with respect to this replica's x, whose extent along `axis` is
/// `local_extent`: the sum of all replicas' `upstream`, which has the shape of y, and of that the part that x is in y.
/// `upstream` is a tensor; a Tensor gives a Tensor, where it lies (of one on a GPU the part is cut on the host); a
/// vector, array or span a vector. All replicas. Throws Error(invalid_argument) where the replicas' extents do not add
/// up to that of `upstream`.
template <class Upstream>
[[nodiscard]] auto all_gather_gradient(ReplicaContext& replica, const Upstream& upstream, int axis,
                                       std::int64_t local_extent) {
  detail::require_reducible<Upstream>();
  return detail::gathered_leaf<Upstream>(
      detail::own_part(replica, tensor_traits<Upstream>::view(upstream), axis, local_extent));
}

}  // namespace lockstep
