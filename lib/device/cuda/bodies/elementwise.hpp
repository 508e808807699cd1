// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The code of a GPU thread in elementwise arithmetic: kernels/elementwise.hpp with the element classes of a fold.

#pragma once

#include "device/cuda/bodies/fold.hpp"
#include "device/cuda/bodies/packs.hpp"
#include "kernels/elementwise.hpp"

#include <cstring>

namespace lockstep::detail::cuda {

/// The arguments of an elementwise kernel. `elementwise_arguments` makes them.
struct ElementwiseArguments {
  Split split;
  ElementOp op = ElementOp::add;
  void* target = nullptr;
  Operand left;
  Operand right;
};

/// The elements of `operand` at `place`, or as many copies of its number.
template <class Elements, class Place>
LOCKSTEP_DEVICE Leaves<Elements> load_operand(const Operand& operand, const Place& place) {
  using Leaf = typename Elements::Leaf;
  if (operand.array != nullptr) return place.template load<Leaf>(operand.array);
  Leaf number;
  std::memcpy(&number, &operand.number, sizeof(Leaf));
  Leaves<Elements> leaves;
  for (int l = 0; l < Elements::lanes; ++l) leaves.at[l] = number;
  return leaves;
}

template <ElementOp op, class Elements, class Memory>
LOCKSTEP_DEVICE void compute_by(const ElementwiseArguments& arguments, const Worker& worker) {
  for_each_place<Memory, Elements::lanes, 1>(arguments.split, worker, [&]<class Place>(const Place(&places)[1]) {
    const Leaves<Elements> lefts = load_operand<Elements>(arguments.left, places[0]);
    const Leaves<Elements> rights = load_operand<Elements>(arguments.right, places[0]);
    Pack<typename Elements::Result, Elements::lanes> results;
    for (int l = 0; l < Elements::lanes; ++l) {
      // a division must not see the zeros in place of elements that do not exist
      if constexpr (op == ElementOp::div && !std::is_floating_point_v<typename Elements::Partial>) {
        if (rights.at[l] == 0) {
          results.at[l] = 0;
          continue;
        }
      }
      results.at[l] =
          Elements::finish(combine_elements<op>(Elements::widen(lefts.at[l]), Elements::widen(rights.at[l])), Ending{});
    }
    places[0].store(results, arguments.target);
  });
}

/// The work of one thread in elementwise arithmetic.
template <class Elements, class Memory>
LOCKSTEP_DEVICE void compute_elementwise(const ElementwiseArguments& arguments, const Worker& worker) {
  switch (arguments.op) {
    case ElementOp::add: return compute_by<ElementOp::add, Elements, Memory>(arguments, worker);
    case ElementOp::sub: return compute_by<ElementOp::sub, Elements, Memory>(arguments, worker);
    case ElementOp::mul: return compute_by<ElementOp::mul, Elements, Memory>(arguments, worker);
    case ElementOp::div: return compute_by<ElementOp::div, Elements, Memory>(arguments, worker);
    default: break;
  }
}

}  // namespace lockstep::detail::cuda
