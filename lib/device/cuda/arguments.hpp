// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions that compute the arguments of kernels from the arguments of the functions in kernels.hpp.

#pragma once

#include "device/cuda/bodies/copy.hpp"
#include "device/cuda/bodies/elementwise.hpp"
#include "device/cuda/bodies/fill.hpp"
#include "device/cuda/bodies/fold.hpp"
#include "device/cuda/bodies/optimizer_step.hpp"
#include "device/cuda/bodies/sparse_update.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace lockstep::detail::cuda {

/// Address and element size of an array.
struct ArrayPlace {
  const void* begin = nullptr;
  int element_bytes = 0;
};

/// Divides `count` elements into a head of single elements, and packs of `lanes` elements that are aligned in all
/// arrays. The packs begin with a cache line in all arrays if a head of less than `line_bytes` elements makes that
/// possible; otherwise the head has less than `lanes` elements. If no head aligns the packs in all arrays, all elements
/// are single elements.
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

/// If the inputs are the leaves 0, 1, ... of a tree, and a kernel for this number of leaves exists, returns the number
/// of inputs; otherwise returns 0.
[[nodiscard]] int known_leaves(const Fold& fold);

/// Whether a GroupedInputs can execute `fold`.
[[nodiscard]] bool is_in_groups(const Fold& fold);

[[nodiscard]] bool has_partials(const Fold& fold);

/// Calls `launch` with a GroupedInputs or an AnyInputs (see bodies/fold.hpp), as the inputs of `fold` require.
template <class Elements, class Launch>
Status with_stack(const Fold& fold, const Launch& launch) {
  if (!is_in_groups(fold)) return launch(AnyInputs<Elements>());
  if constexpr (!std::is_same_v<typename Elements::Leaf, typename Elements::Partial>) {
    if (has_partials(fold)) {
      if constexpr (std::is_same_v<typename Elements::Partial, float>) {
        return launch(GroupedInputs<Elements, InputKinds::leaves_and_partials>());
      } else {
        return launch(AnyInputs<Elements>());  // means of integers are too rare for another kernel of each type
      }
    }
  }
  return launch(GroupedInputs<Elements, InputKinds::leaves>());
}

/// Calls `launch` with a LeafInputs, a GroupedInputs or an AnyInputs (see bodies/fold.hpp), as the inputs of `fold`
/// require. Its elements are `Elements`, possibly with fewer lanes: arguments for `Elements` are valid for both,
/// because arrays that are aligned for packs of `lanes` elements are aligned for smaller packs.
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
  using Stacked = std::conditional_t<stack_lanes<Elements> == Elements::lanes, Elements, Narrow<Elements>>;
  return with_stack<Stacked>(fold, launch);
}

/// The arguments of one launch. Removes the regions that this launch copies, and empty regions, from `regions`.
[[nodiscard]] CopyArguments copy_arguments(std::span<const CopyRegion>& regions);

[[nodiscard]] FillArguments fill_arguments(void* target, const void* element, std::size_t element_bytes,
                                           std::int64_t count);

[[nodiscard]] ElementwiseArguments elementwise_arguments(const Elementwise& what, const FoldShape& shape);

/// The arguments of one launch. They contain the steps of `update` from step `first` on, up to the limit of one launch.
[[nodiscard]] SparseUpdateArguments sparse_update_arguments(const SparseUpdate& update, void* carried,
                                                            std::size_t first, const FoldShape& shape);

/// Divides `update` into launches, and calls `launch` with the arguments of each in order, until a launch fails.
template <class Elements, class Launch>
Status with_sparse_update_arguments(const SparseUpdate& update, void* carried, const Launch& launch) {
  for (std::size_t first = 0; first < update.steps.size();) {
    const SparseUpdateArguments arguments = sparse_update_arguments(update, carried, first, shape_of<Elements>);
    const Status status = launch(arguments);
    if (status != Status::success) return status;
    first += arguments.first_step[arguments.row_count];
  }
  return Status::success;
}

/// All arrays must have the same length.
template <class Step>
[[nodiscard]] OptimizerStepArguments<Step> optimizer_step_arguments(
    const Step& step, const std::span<float> (&outputs)[Step::written],
    const std::span<const float> (&inputs)[Step::read]) {
  OptimizerStepArguments<Step> arguments{.step = step};
  ArrayPlace arrays[Step::written + Step::read];
  for (int a = 0; a < Step::written; ++a) {
    arguments.outputs[a] = outputs[a].data();
    arrays[a] = {outputs[a].data(), sizeof(float)};
  }
  for (int a = 0; a < Step::read; ++a) {
    arguments.inputs[a] = inputs[a].data();
    arrays[Step::written + a] = {inputs[a].data(), sizeof(float)};
  }
  arguments.split = split_of(static_cast<std::int64_t>(inputs[0].size()), optimizer_step_lanes, arrays);
  return arguments;
}

}  // namespace lockstep::detail::cuda
