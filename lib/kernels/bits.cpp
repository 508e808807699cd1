// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Bitwise and, or, and exclusive or. Computed on bytes, for elements of any type.

#include "kernels/reduce.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bits.cpp"

#include <hwy/foreach_target.h>

#include "kernels/simd/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

/// `count` is the number of elements, each of `size` bytes.
template <class Op, int size>
void reduce_bytes(const Fold& fold, std::int64_t count) {
  function_of<PlainFamily<std::uint8_t, Op>>(fold, count * size);
}

template <class Op>
ReduceFunction bytes_function(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return reduce_bytes<Op, 1>;
    case 2: return reduce_bytes<Op, 2>;
    case 4: return reduce_bytes<Op, 4>;
    default: return reduce_bytes<Op, 8>;
  }
}

ReduceFunction bits_of(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::band: return bytes_function<BitAnd>(dtype);
    case ReduceOp::bor: return bytes_function<BitOr>(dtype);
    case ReduceOp::bxor: return bytes_function<BitXor>(dtype);
    default: return nullptr;
  }
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(bits_of);
ReduceFunction bits_function(ReduceOp op, DType dtype) { return HWY_DYNAMIC_DISPATCH(bits_of)(op, dtype); }

}  // namespace lockstep::detail
#endif
