// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/tensor_view.hpp>

#include <span>

namespace lockstep {

/// One tensor of a collective: the inputs of this rank's replicas, and the outputs for the result on this rank. The
/// elements of the views belong to the operation until it completes. The call copies the views, so the two lists of
/// views need to be valid only during the call.
struct Item {
  /// One input per local replica, in the order of replica ids. For broadcast and scatter: one input on the root, none
  /// on other ranks.
  std::span<const ConstTensorView> inputs;
  /// The comment of each collective states the number of outputs, and whether all outputs get the same result.
  std::span<const TensorView> outputs;
};

}  // namespace lockstep
