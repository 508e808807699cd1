// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/tensor_view.hpp>

#include <span>

namespace lockstep {

/// One tensor of a collective: the inputs of this rank's replicas, and the outputs for its result on this rank.
/// The views belong to the operation until it completes; the spans themselves are copied.
struct Item {
  /// One per local replica, in id order; of broadcast and scatter one, on the root only.
  std::span<const ConstTensorView> inputs;
  /// All get the result, or each its own; how many there are is said at each collective.
  std::span<const TensorView> outputs;
};

}  // namespace lockstep
