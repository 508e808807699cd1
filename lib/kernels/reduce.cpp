// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/reduce.hpp"

#include "base/check.hpp"
#include "kernels/arithmetic.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace lockstep::detail {
namespace {

/// Elements that are folded at a time: the stack of one block stays in the first-level cache.
constexpr std::int64_t block_elements = 256;

/// Calls visit(T{}) with the C++ type of `dtype`.
template <class Visit>
void with_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::f16: return visit(Float16{});
    case DType::bf16: return visit(BFloat16{});
    case DType::f32: return visit(float{});
    case DType::f64: return visit(double{});
    case DType::i8: return visit(std::int8_t{});
    case DType::i16: return visit(std::int16_t{});
    case DType::i32: return visit(std::int32_t{});
    case DType::i64: return visit(std::int64_t{});
    case DType::u8: return visit(std::uint8_t{});
    case DType::u16: return visit(std::uint16_t{});
    case DType::u32: return visit(std::uint32_t{});
    case DType::u64: return visit(std::uint64_t{});
    case DType::boolean: return visit(bool{});
  }
}

template <ReduceOp op, class T>
struct Types {
  static constexpr bool integer_mean = op == ReduceOp::mean && std::is_integral_v<T>;
  static constexpr bool is_16_bit_float = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
  using Accumulator = std::conditional_t<is_16_bit_float, float, std::conditional_t<integer_mean, double, T>>;
  using Result = std::conditional_t<integer_mean, double, T>;
};

template <class A, class T>
void load(A* __restrict top, const void* data, std::int64_t begin, std::int64_t count) {
  const T* const source = static_cast<const T*>(data) + begin;
  for (std::int64_t i = 0; i < count; ++i) top[i] = widen<A>(source[i]);
}

template <ReduceOp op, class A, class T>
void load_and_merge(A* __restrict top, const void* data, std::int64_t begin, std::int64_t count) {
  const T* const source = static_cast<const T*>(data) + begin;
  for (std::int64_t i = 0; i < count; ++i) top[i] = combine<op>(top[i], widen<A>(source[i]));
}

template <ReduceOp op, class A>
void merge(A* __restrict left, const A* __restrict right, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) left[i] = combine<op>(left[i], right[i]);
}

template <ReduceOp op, class T>
void store(const Fold& fold, typename Types<op, T>::Accumulator* __restrict root, std::int64_t begin,
           std::int64_t count) {
  using A = typename Types<op, T>::Accumulator;
  using O = typename Types<op, T>::Result;
  const auto size = static_cast<std::size_t>(count);
  if (fold.result == FoldResult::partial) {
    for (void* const output : fold.outputs) std::memcpy(static_cast<A*>(output) + begin, root, size * sizeof(A));
    return;
  }
  if constexpr (op == ReduceOp::mean && std::is_floating_point_v<A>) {
    const A divisor = static_cast<A>(fold.replicas);
    for (std::int64_t i = 0; i < count; ++i) root[i] /= divisor;
  }
  O results[block_elements];
  for (std::int64_t i = 0; i < count; ++i) results[i] = finish<O>(root[i]);
  for (void* const output : fold.outputs) std::memcpy(static_cast<O*>(output) + begin, results, size * sizeof(O));
}

template <ReduceOp op, class T>
void reduce_blocks(const Fold& fold, std::int64_t total) {
  using A = typename Types<op, T>::Accumulator;
  alignas(64) A stack[max_stack_depth][block_elements];
  for (std::int64_t begin = 0; begin < total; begin += block_elements) {
    const std::int64_t count = std::min(block_elements, total - begin);
    int depth = 0;
    for (std::size_t i = 0; i < fold.inputs.size(); ++i) {
      const FoldInput& input = fold.inputs[i];
      int merges = fold.merges[i];
      if (merges > 0) {
        if (input.accumulated) {
          load_and_merge<op, A, A>(stack[depth - 1], input.data, begin, count);
        } else {
          load_and_merge<op, A, T>(stack[depth - 1], input.data, begin, count);
        }
        --merges;
      } else {
        if (input.accumulated) {
          load<A, A>(stack[depth], input.data, begin, count);
        } else {
          load<A, T>(stack[depth], input.data, begin, count);
        }
        ++depth;
      }
      for (; merges > 0; --merges, --depth) merge<op>(stack[depth - 2], stack[depth - 1], count);
    }
    store<op, T>(fold, stack[0], begin, count);
  }
}

template <ReduceOp op>
void reduce_as(const Fold& fold, std::int64_t count) {
  with_type(fold.dtype, [&]<class T>(T) {
    if constexpr (supports(op, dtype_of<T>)) {
      reduce_blocks<op, T>(fold, count);
    } else {
      LOCKSTEP_CHECK(supports(op, dtype_of<T>));
    }
  });
}

}  // namespace

void reduce(const Fold& fold, std::int64_t count) {
  LOCKSTEP_CHECK(!fold.inputs.empty() && fold.inputs.size() == fold.merges.size());
  switch (fold.op) {
    case ReduceOp::sum: return reduce_as<ReduceOp::sum>(fold, count);
    case ReduceOp::mean: return reduce_as<ReduceOp::mean>(fold, count);
    case ReduceOp::min: return reduce_as<ReduceOp::min>(fold, count);
    case ReduceOp::max: return reduce_as<ReduceOp::max>(fold, count);
    case ReduceOp::prod: return reduce_as<ReduceOp::prod>(fold, count);
  }
}

}  // namespace lockstep::detail
