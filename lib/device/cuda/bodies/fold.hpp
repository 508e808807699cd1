// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The code of a GPU thread in a fold. Every element is loaded once, combined in registers along the tree, and stored to
// all outputs. An output may be an input, because a thread stores only elements that no other thread loads. After loops
// are unrolled, all indices into arrays in registers are constants, so that no array is spilled to memory.

#pragma once

#include "device/cuda/bodies/elements.hpp"
#include "device/cuda/bodies/packs.hpp"
#include "device/cuda/kernels.hpp"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace lockstep::detail::cuda {

/// The arguments of a fold kernel. `fold_arguments` makes them.
struct FoldArguments {
  /// The maximum depth of the stack. It is sufficient for every tree if the inputs are in the best order.
  static constexpr int most_depth = std::bit_width(unsigned{Kernels::most_inputs});
  /// The maximum depth of a stack of groups of four inputs. The inputs of a group need up to two more entries.
  static constexpr int most_group_depth = most_depth - 2;
  static constexpr int most_groups = (Kernels::most_inputs + 3) / 4;

  Split split;
  int input_count = 0;
  int output_count = 0;
  const void* inputs[Kernels::most_inputs] = {};
  void* outputs[Kernels::most_outputs] = {};
  std::uint8_t merges[Kernels::most_inputs] = {};  ///< merges after each input
  std::uint8_t group_merges[most_groups] = {};     ///< merges after each group of inputs, for GroupedInputs
  std::uint64_t accumulated = 0;                   ///< bit k: input k contains partial results
  bool is_partial = false;                         ///< whether outputs are partial results
  Ending ending;
};

/// Accumulators of the elements that a thread processes at a time.
template <class Elements>
using Accumulators = Pack<typename Elements::Partial, Elements::lanes>;
template <class Elements>
using Leaves = Pack<typename Elements::Leaf, Elements::lanes>;

template <class Elements>
LOCKSTEP_DEVICE Accumulators<Elements> widened(const Leaves<Elements>& leaves) {
  Accumulators<Elements> values;
  for (int l = 0; l < Elements::lanes; ++l) values.at[l] = Elements::widen(leaves.at[l]);
  return values;
}

template <class Elements>
LOCKSTEP_DEVICE Accumulators<Elements> combined(const Accumulators<Elements>& a, const Accumulators<Elements>& b) {
  Accumulators<Elements> both;
  for (int l = 0; l < Elements::lanes; ++l) both.at[l] = Elements::combine(a.at[l], b.at[l]);
  return both;
}

/// The node of the tree over leaves [first, first + size).
template <class Elements, int first, int size, int number>
LOCKSTEP_DEVICE Accumulators<Elements> node(const Leaves<Elements> (&leaves)[number]) {
  if constexpr (size == 1) {
    return widened<Elements>(leaves[first]);
  } else {
    constexpr int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(size) - 1));
    return combined<Elements>(node<Elements, first, left>(leaves), node<Elements, first + left, size - left>(leaves));
  }
}

/// A fold whose inputs are the leaves 0 to number - 1 of a tree, so that the tree is known at compile time.
template <class Elements_, int number>
struct LeafInputs {
  using Elements = Elements_;
  static constexpr int at_once = number <= 2 ? 4 : number <= 4 ? 2 : 1;

  template <class Place, int size>
  static LOCKSTEP_DEVICE void fold(const FoldArguments& arguments, const Place (&places)[size],
                                   Accumulators<Elements> (&roots)[size]) {
    // The loads do not depend on the additions, but the compiler limits how many are in flight: nvcc 13 places
    // additions between the loads, with f32 after each four.
    Leaves<Elements> leaves[size][number];
    for (int p = 0; p < size; ++p) {
      for (int k = 0; k < number; ++k) {
        leaves[p][k] = places[p].template load<typename Elements::Leaf>(arguments.inputs[k]);
      }
    }
    unrolled<size>([&](auto p) { roots[p] = node<Elements, 0, number>(leaves[p]); });
  }
};

/// The stack of values that have not been combined yet. The depth includes the value that is being pushed.
template <class Elements, int most_depth>
class Stack {
 public:
  /// Combines the `merges` topmost entries with `value`, and pushes the result.
  LOCKSTEP_DEVICE void push(Accumulators<Elements> value, int merges) {
    const int left = depth_ - merges;
    unrolled<capacity>([&](auto from_top) {
      constexpr int entry = capacity - 1 - from_top;
      if (left <= entry && entry < depth_) value = combined<Elements>(entries_[entry], value);
    });
    unrolled<capacity>([&](auto entry) {
      if (entry == left) entries_[entry] = value;
    });
    depth_ = left + 1;
  }
  [[nodiscard]] LOCKSTEP_DEVICE const Accumulators<Elements>& root() const { return entries_[0]; }

 private:
  /// One less than the maximum depth: if the stack is full, the next value is combined before it is stored.
  static constexpr int capacity = most_depth - 1;
  Accumulators<Elements> entries_[capacity] = {};
  int depth_ = 0;
};

/// The kinds of inputs for which a kernel has code. If leaves and partial results have the same type, all are leaves.
enum class InputKinds { leaves, leaves_and_partials };

/// Loads input k, which is of either kind.
template <class Elements, class Place>
LOCKSTEP_DEVICE Accumulators<Elements> load_input(const FoldArguments& arguments, int k, const Place& place) {
  using Leaf = typename Elements::Leaf;
  using Partial = typename Elements::Partial;
  if constexpr (!std::is_same_v<Leaf, Partial>) {
    if ((arguments.accumulated >> k & 1) != 0) return place.template load<Partial>(arguments.inputs[k]);
  }
  return widened<Elements>(place.template load<Leaf>(arguments.inputs[k]));
}

/// A fold that combines each group of four inputs like four leaves, and the group of the remaining inputs likewise.
template <class Elements_, InputKinds kinds>
struct GroupedInputs {
  using Elements = Elements_;
  static constexpr int at_once = 1;

  template <class Place>
  static LOCKSTEP_DEVICE void fold(const FoldArguments& arguments, const Place (&places)[1],
                                   Accumulators<Elements> (&roots)[1]) {
    Stack<Elements, FoldArguments::most_group_depth> stack;
    for (int first = 0; first < arguments.input_count; first += 4) {
      const int inputs = arguments.input_count - first;  // number of inputs from `first` on
      Accumulators<Elements> nodes[4];
      load_group(arguments, first, places[0], nodes);
      if (inputs > 1) nodes[0] = combined<Elements>(nodes[0], nodes[1]);
      if (inputs > 3) nodes[2] = combined<Elements>(nodes[2], nodes[3]);
      if (inputs > 2) nodes[0] = combined<Elements>(nodes[0], nodes[2]);
      stack.push(nodes[0], arguments.group_merges[first / 4]);
    }
    roots[0] = stack.root();
  }

 private:
  /// Loads up to four inputs from input `first` on.
  template <class Place>
  static LOCKSTEP_DEVICE void load_group(const FoldArguments& arguments, int first, const Place& place,
                                         Accumulators<Elements> (&nodes)[4]) {
    const int inputs = arguments.input_count - first;
    if constexpr (kinds == InputKinds::leaves) {
      // all loads are in flight before the first conversion, which waits for a load
      Leaves<Elements> leaves[4] = {};
      unrolled<4>([&](auto k) {
        if (k < inputs) leaves[k] = place.template load<typename Elements::Leaf>(arguments.inputs[first + k]);
      });
      unrolled<4>([&](auto k) { nodes[k] = widened<Elements>(leaves[k]); });
    } else {
      unrolled<4>([&](auto k) {
        if (k < inputs) nodes[k] = load_input<Elements>(arguments, first + k, place);
      });
    }
  }
};

/// A fold with any merges and any kinds of inputs.
template <class Elements_>
struct AnyInputs {
  using Elements = Elements_;
  static constexpr int at_once = 1;

  template <class Place>
  static LOCKSTEP_DEVICE void fold(const FoldArguments& arguments, const Place (&places)[1],
                                   Accumulators<Elements> (&roots)[1]) {
    Stack<Elements, FoldArguments::most_depth> stack;
    Accumulators<Elements> next = load_input<Elements>(arguments, 0, places[0]);
    for (int k = 0; k < arguments.input_count; ++k) {
      const Accumulators<Elements> value = next;
      if (k + 1 < arguments.input_count) next = load_input<Elements>(arguments, k + 1, places[0]);
      stack.push(value, arguments.merges[k]);
    }
    roots[0] = stack.root();
  }
};

template <class T, class Place, int lanes, int size>
LOCKSTEP_DEVICE void store(const FoldArguments& arguments, const Place (&places)[size],
                           const Pack<T, lanes> (&values)[size]) {
  for (int m = 0; m < arguments.output_count; ++m) {
    unrolled<size>([&](auto p) { places[p].store(values[p], arguments.outputs[m]); });
  }
}

/// Stores the roots to all outputs, as partial results or as finished results.
template <class Elements, class Place, int size>
LOCKSTEP_DEVICE void finish(const FoldArguments& arguments, const Place (&places)[size],
                            const Accumulators<Elements> (&roots)[size]) {
  if constexpr (std::is_floating_point_v<typename Elements::Partial>) {
    if (arguments.is_partial) return store(arguments, places, roots);
  }
  Pack<typename Elements::Result, Elements::lanes> results[size];
  unrolled<size>([&](auto p) {
    for (int l = 0; l < Elements::lanes; ++l) {
      results[p].at[l] = Elements::finish(roots[p].at[l], arguments.ending);
    }
  });
  store(arguments, places, results);
}

/// The work of one thread in a fold.
template <class Inputs, class Memory>
LOCKSTEP_DEVICE void fold(const FoldArguments& arguments, const Worker& worker) {
  using Elements = typename Inputs::Elements;
  const auto fold_places = [&]<class Place, int size>(const Place(&places)[size]) {
    Accumulators<Elements> roots[size];
    Inputs::fold(arguments, places, roots);
    finish<Elements>(arguments, places, roots);
  };
  for_each_place<Memory, Elements::lanes, Inputs::at_once>(arguments.split, worker, fold_places);
}

}  // namespace lockstep::detail::cuda
