// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What all optimizers share. They are written with the public API, as a user would.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <cstdint>
#include <span>

namespace lockstep {

/// Moves parameters along gradients, element by element: the result does not depend on layout or on how parameters are
/// cut into variables. Its state is kept in variables of the strategy, one copy per replica. Thread-safety: the
/// replicas of one step call `apply` at the same time.
class LOCKSTEP_API Optimizer {
 public:
  virtual ~Optimizer();

  /// One step on this replica's copies. Local: call it on every replica with gradients that are equal on all, as after
  /// `replica.all_reduce`, and the same learning rate. `gradients[k]` has as many elements as parameter k.
  /// Allocates nothing. Throws Error(invalid_argument) for other numbers of gradients or elements; nothing is written
  /// then.
  void apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate);

 private:
  [[nodiscard]] virtual std::span<const MirroredVariable<float>> do_parameters() const = 0;
  virtual void do_apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate) = 0;
};

}  // namespace lockstep
