// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What kernels are told, made of what their callers say.

#pragma once

#include "device/cuda/bodies/copy.hpp"
#include "device/cuda/bodies/descent.hpp"
#include "device/cuda/bodies/fill.hpp"
#include "device/cuda/bodies/fold.hpp"
#include "device/cuda/bodies/rows.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace lockstep::detail::cuda {

/// An array by where it begins and what it holds.
struct ArrayPlace {
  const void* begin = nullptr;
  int element_bytes = 0;
};

/// Shares `count` elements out: packs of `lanes` of them wherever that is aligned in all arrays.
[[nodiscard]] Split split_of(std::int64_t count, int lanes, std::span<const ArrayPlace> arrays);

struct FoldShape {
  int lanes;
  int leaf_bytes;
  int partial_bytes;
  int result_bytes;
};
template <class Elements>
inline constexpr FoldShape shape_of = {Elements::lanes, sizeof(typename Elements::Leaf),
                                       sizeof(typename Elements::Partial), sizeof(typename Elements::Result)};

[[nodiscard]] FoldArguments fold_arguments(const Fold& fold, std::int64_t count, const FoldShape& shape);

/// The number of inputs when they are leaves 0, 1, ... of a tree and there is a kernel for just as many; else 0.
[[nodiscard]] int known_leaves(const Fold& fold);

/// Calls `launch` with the inputs of `fold`, as one of the types of bodies/fold.hpp.
template <class Elements, class Launch>
Status with_inputs(const Fold& fold, const Launch& launch) {
  if constexpr (Elements::has_leaf_kernels) {
    switch (known_leaves(fold)) {
      case 2: return launch(LeafInputs<Elements, 2>());
      case 3: return launch(LeafInputs<Elements, 3>());
      case 4: return launch(LeafInputs<Elements, 4>());
      case 8: return launch(LeafInputs<Elements, 8>());
      default: break;
    }
  }
  return launch(AnyInputs<Elements>());
}

/// Takes as many pieces from the front of `pieces` as one launch takes, leaving out empty ones.
[[nodiscard]] CopyArguments copy_arguments(std::span<const CopyPiece>& pieces);

[[nodiscard]] FillArguments fill_arguments(void* target, const void* element, std::size_t element_bytes,
                                           std::int64_t count);

/// The steps of `update` from `first` on, as many as one launch takes.
[[nodiscard]] RowArguments row_arguments(const RowUpdate& update, void* carried, std::size_t first,
                                         const FoldShape& shape);

/// Calls `launch` with the arguments of each launch that `update` needs, in their order, until one fails.
template <class Elements, class Launch>
Status with_row_arguments(const RowUpdate& update, void* carried, const Launch& launch) {
  for (std::size_t first = 0; first < update.steps.size();) {
    const RowArguments arguments = row_arguments(update, carried, first, shape_of<Elements>);
    const Status status = launch(arguments);
    if (status != Status::success) return status;
    first += arguments.first_step[arguments.row_count];
  }
  return Status::success;
}

/// The arrays have the same length.
template <class Step>
[[nodiscard]] DescentArguments<Step> descent_arguments(const Step& step,
                                                       const std::span<float> (&outputs)[Step::written],
                                                       const std::span<const float> (&inputs)[Step::read]) {
  DescentArguments<Step> arguments{.step = step};
  ArrayPlace arrays[Step::written + Step::read];
  for (int a = 0; a < Step::written; ++a) {
    arguments.outputs[a] = outputs[a].data();
    arrays[a] = {outputs[a].data(), sizeof(float)};
  }
  for (int a = 0; a < Step::read; ++a) {
    arguments.inputs[a] = inputs[a].data();
    arrays[Step::written + a] = {inputs[a].data(), sizeof(float)};
  }
  arguments.split = split_of(static_cast<std::int64_t>(inputs[0].size()), descent_lanes, arrays);
  return arguments;
}

}  // namespace lockstep::detail::cuda
