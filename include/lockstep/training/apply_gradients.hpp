// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The pattern of tf.distribute for updating variables: run -> merge_call -> batch_reduce_to -> update.

#pragma once

#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep {

/// Makes the last three calls of the pattern, in a step function. merge_call joins the local replicas. batch_reduce_to
/// reduces the gradients of all replicas to the devices of their variables, in one collective. For each variable, in
/// the order of the list, StrategyExtended::update calls `update(variable, gradient)` for each copy. `gradient` is the
/// reduced gradient: a vector if the gradients are vectors or spans, a Tensor if they are tensors.
/// Collective over all replicas. Throws Error(invalid_argument) unless all replicas pass the same variables in the same
/// order. Rethrows errors of merge_call, batch_reduce_to and `update`.
///
///   apply_gradients(replica, std::vector{std::pair(gradient, w)},
///                   [](auto& w, const std::vector<float>& sum) { w.updatable_component()[0] -= 0.1F * sum[0]; });
///
/// The copies are updated one after the other, on the thread of the first local replica. Optimizer::apply_gradients
/// computes the same sums, but each replica updates its copy itself.
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
