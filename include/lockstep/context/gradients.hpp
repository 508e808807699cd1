// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The backward pass of collectives. There is no tape here: a program that differentiates by hand, or registers
// functions with another framework, calls these.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/detail/reduced.hpp>

#include <cstdint>
#include <utility>

namespace lockstep {
namespace detail {

/// `op`; Error(invalid_argument) unless it is sum or mean.
[[nodiscard]] LOCKSTEP_API ReduceOp differentiable(ReduceOp op);

/// The part of `upstream`, the gathered gradient, that belongs to this replica: `extent` rows along `axis`. All
/// replicas.
[[nodiscard]] LOCKSTEP_API Tensor own_part(ReplicaContext& replica, ConstTensorView upstream, int axis,
                                           std::int64_t extent);

}  // namespace detail

/// Returns the gradient of `y = all_reduce(op, x)` with respect to this replica's x. `upstream` is the gradient of this
/// replica's loss with respect to its y. All losses depend on every x, so the result is all_reduce(op, upstream).
/// All replicas. `upstream` is a tree, as in all_reduce. Throws as all_reduce, and Error(invalid_argument) for an op
/// other than sum and mean.
template <class Tree>
decltype(auto) all_reduce_gradient(ReplicaContext& replica, const ReduceOpArgument& op, Tree&& upstream) {
  const ReduceOp checked = op.op("all_reduce_gradient");
  return replica.all_reduce(detail::differentiable(checked), std::forward<Tree>(upstream));
}

/// Returns the gradient of `y = all_gather(x, axis)` with respect to this replica's x, whose extent along `axis` is
/// `local_extent`: the part of x in the sum of `upstream` over all replicas. All replicas.
/// `upstream` is a tensor with the shape of y. A Tensor gives a Tensor on the same device (for a GPU the part is cut on
/// the host), a vector, array or span a vector.
/// Throws Error(invalid_argument) unless the extents of the replicas add up to that of `upstream`.
template <class Upstream>
[[nodiscard]] auto all_gather_gradient(ReplicaContext& replica, const Upstream& upstream, int axis,
                                       std::int64_t local_extent) {
  static_cast<void>(detail::can_be_reduced<Upstream, detail::is_not_tensor>());
  return detail::gathered_leaf<Upstream>(
      detail::own_part(replica, tensor_traits<Upstream>::view(upstream), axis, local_extent));
}

}  // namespace lockstep
