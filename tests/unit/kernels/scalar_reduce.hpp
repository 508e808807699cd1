// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The oracle for kernels: a fold that is evaluated one element at a time by kernels/arithmetic.hpp; and access to the
// kernels of every target.

#pragma once

#include "kernels/arithmetic.hpp"
#include "kernels/reduce.hpp"
#include "kernels/target.hpp"
#include "support/canonical_sum.hpp"

#include <lockstep/core/float16.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep::detail {

template <ReduceOp op, class T>
void scalar_reduce_as(const Fold& fold, std::int64_t count) {
  constexpr bool is_narrow = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
  constexpr bool is_integer_mean = op == ReduceOp::mean && std::is_integral_v<T>;
  using A = std::conditional_t<is_narrow, float, std::conditional_t<is_integer_mean, double, T>>;
  using O = std::conditional_t<is_integer_mean, double, T>;
  for (std::int64_t i = 0; i < count; ++i) {
    A stack[max_stack_depth];
    int depth = 0;
    for (std::size_t k = 0; k < fold.inputs.size(); ++k) {
      const FoldInput& input = fold.inputs[k];
      stack[depth++] =
          input.accumulated ? static_cast<const A*>(input.data)[i] : widen<A>(static_cast<const T*>(input.data)[i]);
      for (int merges = fold.merges[k]; merges > 0; --merges, --depth) {
        stack[depth - 2] = combine<op>(stack[depth - 2], stack[depth - 1]);
      }
    }
    if (fold.result == FoldResult::partial) {
      for (void* const output : fold.outputs) static_cast<A*>(output)[i] = stack[0];
    } else {
      if constexpr (op == ReduceOp::mean) stack[0] /= static_cast<A>(fold.replicas);
      for (void* const output : fold.outputs) static_cast<O*>(output)[i] = finish<O>(stack[0]);
    }
  }
}

template <ReduceOp op>
void scalar_reduce_op(const Fold& fold, std::int64_t count) {
  const auto run = [&]<class T>(T) {
    if constexpr (supports(op, dtype_of<T>)) {
      scalar_reduce_as<op, T>(fold, count);
    } else {
      throw std::logic_error("this op does not support this dtype");
    }
  };
  switch (fold.dtype) {
    case DType::f16: return run(Float16{});
    case DType::bf16: return run(BFloat16{});
    case DType::f32: return run(float{});
    case DType::f64: return run(double{});
    case DType::i8: return run(std::int8_t{});
    case DType::i16: return run(std::int16_t{});
    case DType::i32: return run(std::int32_t{});
    case DType::i64: return run(std::int64_t{});
    case DType::u8: return run(std::uint8_t{});
    case DType::u16: return run(std::uint16_t{});
    case DType::u32: return run(std::uint32_t{});
    case DType::u64: return run(std::uint64_t{});
    case DType::boolean: return run(bool{});
  }
}

inline void scalar_reduce(const Fold& fold, std::int64_t count) {
  switch (fold.op) {
    case ReduceOp::sum: return scalar_reduce_op<ReduceOp::sum>(fold, count);
    case ReduceOp::mean: return scalar_reduce_op<ReduceOp::mean>(fold, count);
    case ReduceOp::min: return scalar_reduce_op<ReduceOp::min>(fold, count);
    case ReduceOp::max: return scalar_reduce_op<ReduceOp::max>(fold, count);
    case ReduceOp::prod: return scalar_reduce_op<ReduceOp::prod>(fold, count);
    case ReduceOp::band: return scalar_reduce_op<ReduceOp::band>(fold, count);
    case ReduceOp::bor: return scalar_reduce_op<ReduceOp::bor>(fold, count);
    case ReduceOp::bxor: return scalar_reduce_op<ReduceOp::bxor>(fold, count);
  }
}

/// A kernel of one target.
struct TargetFunction {
  std::string_view target;
  ReduceFunction function;
};

/// The kernels of all targets that run on this processor.
inline std::vector<TargetFunction> functions_of_all_targets(ReduceOp op, DType dtype) {
  std::vector<TargetFunction> functions;
  for (const std::string_view target : kernel_targets()) {
    const ForcedKernelTarget forced(target);
    functions.push_back({target, reduce_function(op, dtype)});
  }
  return functions;
}

template <class Visit>
void for_ops_and_dtypes(Visit visit) {
  for (int o = 0; o < reduce_op_count; ++o) {
    for (int d = 0; d < dtype_count; ++d) {
      const auto op = static_cast<ReduceOp>(o);
      const auto dtype = static_cast<DType>(d);
      if (supports(op, dtype)) visit(op, dtype);
    }
  }
}

/// Whether partial results are equal. Any NaN equals any other, since results have one NaN only.
inline bool same_partials(const test::Bytes& a, const test::Bytes& b, DType dtype) {
  if (a.size() != b.size()) return false;
  const auto same = [&]<class T>(T) {
    for (std::size_t i = 0; i < a.size(); i += sizeof(T)) {
      T x;
      T y;
      std::memcpy(&x, a.data() + i, sizeof(T));
      std::memcpy(&y, b.data() + i, sizeof(T));
      if (std::memcmp(&x, &y, sizeof(T)) != 0 && !(std::isnan(x) && std::isnan(y))) return false;
    }
    return true;
  };
  if (dtype == DType::f32) return same(float{});
  if (dtype == DType::f64) return same(double{});
  return a == b;
}

}  // namespace lockstep::detail
