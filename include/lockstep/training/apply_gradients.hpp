// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The pattern of tf.distribute for updating variables: run -> merge_call -> batch_reduce_to -> update.

#pragma once

#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace lockstep {

/// Steps 2 to 4 of the pattern, called in a step function: joins the local replicas (merge_call), reduces the gradients
/// of all replicas to the devices of their variables in one collective (batch_reduce_to), and calls `update(component,
/// gradient)` for each copy of each variable, in the order of the list (update). `component` is a std::span<T> for a
/// MirroredVariable<T> and a TensorView for a Variable; `gradient` is the reduced gradient: a vector for vectors and
/// spans, a Tensor for tensors. All replicas call it with the same variables in the same order, else
/// Error(invalid_argument). Throws what merge_call, batch_reduce_to and `update` throw.
///
///   apply_gradients(replica, std::vector{std::pair(gradient, w)},
///                   [](std::span<float> w, const std::vector<float>& sum) { w[0] -= 0.1F * sum[0]; });
///
/// The copies are updated one after the other on the thread of the first local replica. Optimizer::apply_gradients
/// computes the same sums, and each replica updates its own copy.
template <class Gradient, class VariableType, class Update>
void apply_gradients(ReplicaContext& replica,
                     const std::vector<std::pair<Gradient, VariableType>>& gradients_and_variables, Update&& update,
                     ReduceOp op = ReduceOp::sum) {
  replica.merge_call(
      [&](Strategy& strategy, const auto& pairs) {
        StrategyExtended& extended = strategy.extended();
        const auto reduced = extended.batch_reduce_to(op, pairs);
        for (std::size_t k = 0; k < pairs.size(); ++k) extended.update(pairs[k].second, update, reduced[k]);
      },
      gradients_and_variables);
}

}  // namespace lockstep
