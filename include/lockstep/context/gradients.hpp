// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The gradients of collectives. lockstep has no gradient tape. A program that computes gradients by hand, or registers
// gradient functions with another framework, calls these functions.

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

/// Returns `op`. Throws Error(invalid_argument) unless `op` is sum or mean.
[[nodiscard]] LOCKSTEP_API ReduceOp differentiable(ReduceOp op);

/// Sums `upstream`, the gradient of the gathered tensor, over all replicas, and returns the part of the sum that
/// belongs to this replica: `extent` elements along `axis`. All replicas.
[[nodiscard]] LOCKSTEP_API Tensor own_part(ReplicaContext& replica, ConstTensorView upstream, int axis,
                                           std::int64_t extent);

}  // namespace detail

/// Returns the gradient of `y = all_reduce(op, x)` with respect to the x of this replica. `upstream` is the gradient of
/// this replica's loss with respect to the y of this replica. The losses of all replicas depend on every x, so the
/// result is all_reduce(op, upstream).
/// All replicas. `upstream` is a tree, as in all_reduce. Throws as all_reduce; also throws Error(invalid_argument) for
/// an op other than sum and mean.
template <class Tree>
decltype(auto) all_reduce_gradient(ReplicaContext& replica, const ReduceOpArgument& op, Tree&& upstream) {
  const ReduceOp checked = op.op("all_reduce_gradient");
  return replica.all_reduce(detail::differentiable(checked), std::forward<Tree>(upstream));
}

/// Returns the gradient of `y = all_gather(x, axis)` with respect to the x of this replica. `local_extent` is the
/// extent of this x along `axis`. The result is the part of the sum of all replicas' `upstream` that corresponds to
/// this x. All replicas.
/// `upstream` is a tensor with the shape of y. A Tensor gives a Tensor on the same device (the part of a tensor on a
/// GPU is cut in host memory). A vector, array or span gives a vector.
/// Throws Error(invalid_argument) unless the local extents of all replicas add up to the extent of `upstream` along
/// `axis`.
template <class Upstream>
[[nodiscard]] auto all_gather_gradient(ReplicaContext& replica, const Upstream& upstream, int axis,
                                       std::int64_t local_extent) {
  static_cast<void>(detail::can_be_reduced<Upstream, detail::is_not_tensor>());
  return detail::gathered_leaf<Upstream>(
      detail::own_part(replica, tensor_traits<Upstream>::view(upstream), axis, local_extent));
}

}  // namespace lockstep
