// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Folds in vectors: every element is loaded once, combined in registers along the tree, and stored to all outputs.
// Compiled once per target.
//
// A remainder is computed in a last vector, which overlaps the vector before it. The last vector is computed before any
// store, because an output may be an input. Nothing is read or written outside the arrays.

#include "kernels/reduce.hpp"
#include "kernels/simd/elements-inl.hpp"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(LOCKSTEP_KERNELS_SIMD_FOLD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_SIMD_FOLD_INL
#undef LOCKSTEP_KERNELS_SIMD_FOLD_INL
#else
#define LOCKSTEP_KERNELS_SIMD_FOLD_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

/// `size` vectors of accumulators, for consecutive elements.
template <class Elements, int size>
struct Group {
  typename Elements::Accumulator vectors[size];
};

/// The inputs of a fold that has only leaves 0 to number - 1. The tree is known at compile time, and is evaluated one
/// vector at a time.
template <class Elements, int number>
class LeafInputs {
 public:
  explicit HWY_INLINE LeafInputs(const Fold& fold) {
    for (int k = 0; k < number; ++k) {
      inputs_[k] = static_cast<const typename Elements::Leaf*>(fold.inputs[static_cast<std::size_t>(k)].data);
    }
  }
  template <int size>
  HWY_INLINE Group<Elements, size> at(std::int64_t i) const {
    Group<Elements, size> roots;
    for (int v = 0; v < size; ++v) roots.vectors[v] = node<0, number>(i + v * Elements::lanes);
    return roots;
  }

 private:
  template <int first, int size>
  HWY_INLINE typename Elements::Accumulator node(std::int64_t i) const {
    if constexpr (size == 1) {
      return Elements::leaf(inputs_[first] + i);
    } else {
      constexpr int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(size) - 1));
      return Elements::combine(node<first, left>(i), node<first + left, size - left>(i));
    }
  }

  const typename Elements::Leaf* inputs_[number];
};

/// The inputs of a fold with any fold.merges. The top of the stack is in registers; the rest of the stack is in the
/// first-level cache.
template <class Elements>
class AnyInputs {
 public:
  explicit HWY_INLINE AnyInputs(const Fold& fold) : fold_(fold) {}
  template <int size>
  HWY_INLINE Group<Elements, size> at(std::int64_t i) const {
    using Vectors = Group<Elements, size>;
    Vectors stack[max_stack_depth];  // the entries below the top
    Vectors* end = stack;
    Vectors top = load<size>(fold_.inputs[0], i);
    for (std::size_t k = 1; k < fold_.inputs.size(); ++k) {
      const Vectors next = load<size>(fold_.inputs[k], i);
      int merges = fold_.merges[k];
      if (merges == 0) {
        *end++ = top;
        top = next;
        continue;
      }
      top = combine(top, next);
      while (--merges > 0) top = combine(*--end, top);
    }
    return top;
  }

 private:
  template <int size>
  static HWY_INLINE Group<Elements, size> load(const FoldInput& input, std::int64_t i) {
    using Leaf = typename Elements::Leaf;
    using Partial = typename Elements::Partial;
    Group<Elements, size> group;
    if constexpr (!std::is_same_v<Leaf, Partial>) {
      if (input.accumulated) {
        const Partial* const source = static_cast<const Partial*>(input.data) + i;
        for (int v = 0; v < size; ++v) group.vectors[v] = Elements::partial(source + v * Elements::lanes);
        return group;
      }
    }
    const Leaf* const source = static_cast<const Leaf*>(input.data) + i;
    for (int v = 0; v < size; ++v) group.vectors[v] = Elements::leaf(source + v * Elements::lanes);
    return group;
  }
  template <int size>
  static HWY_INLINE Group<Elements, size> combine(const Group<Elements, size>& a, const Group<Elements, size>& b) {
    Group<Elements, size> both;
    for (int v = 0; v < size; ++v) both.vectors[v] = Elements::combine(a.vectors[v], b.vectors[v]);
    return both;
  }

  const Fold& fold_;
};

/// Stores the roots of the elements that begin at i to all outputs. If `may_stream` is false, ignores Ending::streams.
template <class Elements, bool may_stream, int size>
HWY_INLINE void store(const Fold& fold, const Ending& ending, const Group<Elements, size>& roots, std::int64_t i) {
  using Partial = typename Elements::Partial;
  using Result = typename Elements::Result;
  constexpr std::int64_t lanes = Elements::lanes;
  if constexpr (std::is_floating_point_v<Partial>) {
    if (ending.is_partial) {
      for (void* const output : fold.outputs) {
        Partial* const target = static_cast<Partial*>(output) + i;
        if (may_stream && ending.streams && Elements::can_stream_partial(target)) {
          for (int v = 0; v < size; ++v) Elements::template put_partial<true>(roots.vectors[v], target + v * lanes);
        } else {
          for (int v = 0; v < size; ++v) Elements::template put_partial<false>(roots.vectors[v], target + v * lanes);
        }
      }
      return;
    }
  }
  using Output = typename Elements::Output;
  Output results[size];
  for (int v = 0; v < size; ++v) results[v] = Elements::result(roots.vectors[v], ending);
  // a streaming store writes a whole vector, so the results must fill the vector
  constexpr bool can_stream = may_stream && sizeof(Output) == static_cast<std::size_t>(lanes) * sizeof(Result);
  for (void* const output : fold.outputs) {
    Result* const target = static_cast<Result*>(output) + i;
    if constexpr (can_stream) {
      if (ending.streams && reinterpret_cast<std::uintptr_t>(target) % sizeof(Output) == 0) {
        for (int v = 0; v < size; ++v) Elements::template put<true>(results[v], target + v * lanes);
        continue;
      }
    }
    for (int v = 0; v < size; ++v) Elements::template put<false>(results[v], target + v * lanes);
  }
}

/// Folds the elements [begin, end), `size` vectors at a time. There must be at least Elements::lanes elements.
template <class Elements, class Inputs, int size, bool may_stream = false>
HWY_NOINLINE void run(const Fold& fold, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t lanes = Elements::lanes;
  const Inputs inputs(fold);
  const Ending ending(fold);
  const Group<Elements, 1> last = inputs.template at<1>(end - lanes);
  std::int64_t i = begin;
  for (; i + size * lanes <= end; i += size * lanes) {
    store<Elements, may_stream>(fold, ending, inputs.template at<size>(i), i);
  }
  if constexpr (size > 1) {
    for (; i + lanes <= end; i += lanes) store<Elements, false>(fold, ending, inputs.template at<1>(i), i);
  }
  if (i < end) store<Elements, false>(fold, ending, last, end - lanes);
}

/// Number of inputs, if the inputs are all leaves of a tree of at most 8 leaves; otherwise 0.
template <class Elements>
HWY_INLINE std::size_t number_of_leaves(const Fold& fold) {
  // the results of fold_merges_of_leaves
  static constexpr std::uint8_t merges[9][8] = {{},
                                                {0},
                                                {0, 1},
                                                {0, 1, 1},
                                                {0, 1, 0, 2},
                                                {0, 1, 0, 2, 1},
                                                {0, 1, 0, 2, 0, 2},
                                                {0, 1, 0, 2, 0, 1, 2},
                                                {0, 1, 0, 2, 0, 1, 0, 3}};
  const std::size_t number = fold.inputs.size();
  if (number > 8) return 0;
  for (std::size_t k = 0; k < number; ++k) {
    if (fold.merges[k] != merges[number][k]) return 0;
    if constexpr (!std::is_same_v<typename Elements::Leaf, typename Elements::Partial>) {
      if (fold.inputs[k].accumulated) return 0;
    }
  }
  return number;
}

/// Number of elements before the first vector boundary in the first output; 0 if no element begins at such a boundary.
template <class Elements>
HWY_INLINE std::int64_t elements_to_alignment(const Fold& fold, std::int64_t count) {
  constexpr std::size_t vector = sizeof(typename Elements::Output);
  constexpr std::size_t result = sizeof(typename Elements::Result);
  if (fold.outputs.empty()) return 0;
  const std::size_t bytes = -reinterpret_cast<std::uintptr_t>(fold.outputs[0]) % vector;
  return bytes % result == 0 ? std::min(static_cast<std::int64_t>(bytes / result), count) : 0;
}

/// Number of vectors that are folded at a time: enough to hide the latency of loads and arithmetic without spilling
/// registers.
template <class Elements>
inline constexpr int many = sizeof(typename Elements::Accumulator) > sizeof(typename Elements::Output) ? 2 : 4;

/// Runs the specialised kernel for `number` leaves if the op has one, otherwise the general kernel.
template <class Elements, int number>
HWY_INLINE void run_leaves(const Fold& fold, std::int64_t count) {
  if constexpr ((Elements::leaves >> number & 1u) != 0) {
    run<Elements, LeafInputs<Elements, number>, number <= 3 ? many<Elements> : 2>(fold, 0, count);
  } else {
    run<Elements, AnyInputs<Elements>, many<Elements>, true>(fold, 0, count);
  }
}

/// A ReduceFunction. `Family<width>` is the element class of one type and op for vectors of size `width`.
template <template <Width> class Family>
void reduce_elements(const Fold& fold, std::int64_t count) {
  using Full = Family<Width::full>;
  using Small = Family<Width::small>;
  using Single = Family<Width::single>;
  const auto run_few = [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    if (end - begin >= Small::lanes) return run<Small, AnyInputs<Small>, 1>(fold, begin, end);
    if (begin < end) run<Single, AnyInputs<Single>, 1>(fold, begin, end);
  };
  if (count < Full::lanes) return run_few(0, count);
  if (fold.stream) {
    const std::int64_t head = elements_to_alignment<Full>(fold, count);
    run_few(0, head);
    if (count - head < Full::lanes) {
      run_few(head, count);
    } else {
      run<Full, AnyInputs<Full>, many<Full>, true>(fold, head, count);
    }
    return hwy::FlushStream();
  }
  switch (number_of_leaves<Full>(fold)) {
    case 2: return run_leaves<Full, 2>(fold, count);
    case 3: return run_leaves<Full, 3>(fold, count);
    case 4: return run_leaves<Full, 4>(fold, count);
    case 5: return run_leaves<Full, 5>(fold, count);
    case 6: return run_leaves<Full, 6>(fold, count);
    case 7: return run_leaves<Full, 7>(fold, count);
    case 8: return run_leaves<Full, 8>(fold, count);
    default: return run<Full, AnyInputs<Full>, many<Full>, true>(fold, 0, count);
  }
}

template <class T, class Op>
struct PlainFamily {
  template <Width width>
  using Elements = Plain<T, Op, width>;
};
template <class Op>
struct HalfFamily {
  template <Width width>
  using Elements = NarrowFloat<Half, Op, width>;
};
template <class Op>
struct BrainFamily {
  static constexpr bool has_pairs = hn::MaxLanes(hn::ScalableTag<float>()) > 1;
  template <Width width>
  using Elements = std::conditional_t<width == Width::full && has_pairs, BrainPairs<Op>, NarrowFloat<Brain, Op, width>>;
};
template <class T>
struct IntegerMeanFamily {
  template <Width width>
  using Elements = IntegerMean<T, width>;
};
struct ByteProductFamily {
  template <Width width>
  using Elements = ByteProduct<width>;
};

template <class Family>
inline constexpr ReduceFunction function_of = reduce_elements<Family::template Elements>;

/// The kernel for floating-point types; null for other types.
template <class Op>
ReduceFunction float_function(DType dtype) {
  switch (dtype) {
    case DType::f16: return function_of<HalfFamily<Op>>;
    case DType::bf16: return function_of<BrainFamily<Op>>;
    case DType::f32: return function_of<PlainFamily<float, Op>>;
    case DType::f64: return function_of<PlainFamily<double, Op>>;
    default: return nullptr;
  }
}

/// The kernel for ops that distinguish signed from unsigned integers.
template <class Op>
ReduceFunction ordered_function(DType dtype) {
  switch (dtype) {
    case DType::i8: return function_of<PlainFamily<std::int8_t, Op>>;
    case DType::i16: return function_of<PlainFamily<std::int16_t, Op>>;
    case DType::i32: return function_of<PlainFamily<std::int32_t, Op>>;
    case DType::i64: return function_of<PlainFamily<std::int64_t, Op>>;
    case DType::boolean:
    case DType::u8: return function_of<PlainFamily<std::uint8_t, Op>>;
    case DType::u16: return function_of<PlainFamily<std::uint16_t, Op>>;
    case DType::u32: return function_of<PlainFamily<std::uint32_t, Op>>;
    case DType::u64: return function_of<PlainFamily<std::uint64_t, Op>>;
    default: return float_function<Op>(dtype);
  }
}

/// The kernel for ops on wrapping integers, which do not distinguish signed from unsigned integers.
template <class Op, class ByteFamily = PlainFamily<std::uint8_t, Op>>
ReduceFunction wrapping_function(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::u8: return function_of<ByteFamily>;
    case DType::i16:
    case DType::u16: return function_of<PlainFamily<std::uint16_t, Op>>;
    case DType::i32:
    case DType::u32: return function_of<PlainFamily<std::uint32_t, Op>>;
    case DType::i64:
    case DType::u64: return function_of<PlainFamily<std::uint64_t, Op>>;
    default: return float_function<Op>(dtype);
  }
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
