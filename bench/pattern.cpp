// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>

namespace perf {
namespace {

using lockstep::BFloat16;
using lockstep::DType;
using lockstep::Float16;
using lockstep::ReduceOp;

template <class T>
inline constexpr bool is_narrow_float = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// splitmix64's finish: 64 bits that depend on all of (rank, index).
std::uint64_t random_word(int rank, std::int64_t index) {
  std::uint64_t word =
      (static_cast<std::uint64_t>(rank) << 32) + static_cast<std::uint64_t>(index) + 0x9e3779b97f4a7c15u;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

/// Magnitudes of 1/2 to 2 for products, of 2^-14 to 2^6 otherwise: normal in f16, where sums of a thousand fit, and far
/// enough apart for the order of f32 additions to show.
float mixed_float(std::uint64_t word, ReduceOp op) {
  const float fraction = 1 + static_cast<float>(word & 0xffffff) * 0x1p-24f;
  const int exponent =
      op == ReduceOp::prod ? -static_cast<int>((word >> 24) % 2) : static_cast<int>((word >> 24) % 20) - 14;
  return std::ldexp((word >> 63) != 0 ? -fraction : fraction, exponent);
}

/// Whole numbers for sums, powers of two for products: exact in every type and every order.
float order_free_float(std::uint64_t word, ReduceOp op) {
  if (op == ReduceOp::prod) return std::ldexp((word >> 63) != 0 ? -1.0f : 1.0f, static_cast<int>(word % 3) - 1);
  return static_cast<float>(word % 17) - 8;
}

template <class T>
T element(int rank, std::int64_t index, ReduceOp op, Values values) {
  const std::uint64_t word = random_word(rank, index);
  if constexpr (std::is_same_v<T, bool>) {
    return (word & 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return values == Values::mixed ? static_cast<T>(word) : static_cast<T>(static_cast<std::int64_t>(word % 17) - 8);
  } else {
    const float value = values == Values::mixed ? mixed_float(word, op) : order_free_float(word, op);
    if constexpr (std::is_same_v<T, double>) {
      return value + static_cast<double>(values == Values::mixed ? word >> 40 : 0) * 0x1p-52;
    } else {
      return T(value);
    }
  }
}

template <class A>
A combine(A a, A b, ReduceOp op) {
  if (op == ReduceOp::min) return b < a ? b : a;  // no NaN and no -0 in here
  if (op == ReduceOp::max) return a < b ? b : a;
  if constexpr (std::is_integral_v<A>) {
    const auto x = static_cast<unsigned long long>(a);
    const auto y = static_cast<unsigned long long>(b);
    if (op == ReduceOp::band) return static_cast<A>(x & y);
    if (op == ReduceOp::bor) return static_cast<A>(x | y);
    if (op == ReduceOp::bxor) return static_cast<A>(x ^ y);
    return static_cast<A>(op == ReduceOp::prod ? x * y : x + y);  // wraps
  } else {
    return op == ReduceOp::prod ? a * b : a + b;
  }
}

/// The node over ranks [first, first + width): its left half, and its right half where that has ranks.
template <class A>
A tree(std::span<const A> leaves, std::size_t first, std::size_t width, ReduceOp op) {
  if (width == 1) return leaves[first];
  const A left = tree(leaves, first, width / 2, op);
  if (first + width / 2 >= leaves.size()) return left;
  return combine(left, tree(leaves, first + width / 2, width / 2, op), op);
}

template <class T>
void store(std::vector<std::byte>& bytes, std::int64_t index, T value) {
  std::memcpy(bytes.data() + static_cast<std::size_t>(index) * sizeof(T), &value, sizeof(T));
}

/// T: elements, A: partial results, O: results.
template <class T, class A, class O>
void fill(std::vector<std::byte>& inputs, std::vector<std::byte>& results, ReduceOp op, int rank, int ranks,
          Values values) {
  inputs.resize(Pattern::period * sizeof(T));
  results.resize(Pattern::period * sizeof(O));
  const auto leaves = std::make_unique<A[]>(static_cast<std::size_t>(ranks));
  std::size_t width = 1;
  while (width < static_cast<std::size_t>(ranks)) width *= 2;
  for (std::int64_t i = 0; i < Pattern::period; ++i) {
    store(inputs, i, element<T>(rank, i, op, values));
    for (int r = 0; r < ranks; ++r) leaves[static_cast<std::size_t>(r)] = static_cast<A>(element<T>(r, i, op, values));
    A root = tree(std::span<const A>(leaves.get(), static_cast<std::size_t>(ranks)), 0, width, op);
    if constexpr (std::is_floating_point_v<A>) {
      if (op == ReduceOp::mean) root = root / static_cast<A>(ranks);
    }
    store(results, i, static_cast<O>(root));
  }
}

template <class T>
void fill_type(std::vector<std::byte>& inputs, std::vector<std::byte>& results, ReduceOp op, int rank, int ranks,
               Values values) {
  if constexpr (is_narrow_float<T>) {
    fill<T, float, T>(inputs, results, op, rank, ranks, values);
  } else {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (op == ReduceOp::mean) return fill<T, double, double>(inputs, results, op, rank, ranks, values);
    }
    fill<T, T, T>(inputs, results, op, rank, ranks, values);
  }
}

template <class Visit>
void with_type(DType dtype, Visit visit) {
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

/// Calls `visit(offset, position, length)` for the runs of a tensor of `count` elements, in order: `length` elements
/// from `offset` on are those of the table from `position` on.
template <class Visit>
void for_runs(std::int64_t count, std::int64_t call, Visit visit) {
  constexpr std::int64_t period = Pattern::period;
  for (std::int64_t offset = 0, repetition = 0; offset < count; offset += period, ++repetition) {
    const std::int64_t length = std::min(period, count - offset);
    const std::int64_t position = (call % period * 31 + repetition % period * 1031) % period;
    const std::int64_t first = std::min(length, period - position);
    visit(offset, position, first);
    if (first < length) visit(offset + first, std::int64_t{0}, length - first);
  }
}

}  // namespace

Pattern::Pattern(DType dtype, ReduceOp op, int rank, int ranks, Values values)
    : input_size_(lockstep::size_of(dtype)), result_size_(lockstep::size_of(lockstep::result_dtype(op, dtype))) {
  if (!lockstep::supports(op, dtype)) throw std::logic_error("this op does not take this dtype");
  with_type(dtype, [&]<class T>(T) { fill_type<T>(inputs_, results_, op, rank, ranks, values); });
}

void Pattern::write(std::span<std::byte> buffer, std::int64_t call) const {
  for_runs(static_cast<std::int64_t>(buffer.size() / input_size_), call, [&](auto offset, auto position, auto length) {
    std::memcpy(buffer.data() + static_cast<std::size_t>(offset) * input_size_,
                inputs_.data() + static_cast<std::size_t>(position) * input_size_,
                static_cast<std::size_t>(length) * input_size_);
  });
}

std::int64_t Pattern::count_wrong(std::span<const std::byte> result, std::int64_t call) const {
  std::int64_t wrong = 0;
  for_runs(static_cast<std::int64_t>(result.size() / result_size_), call, [&](auto offset, auto position, auto length) {
    const std::byte* const found = result.data() + static_cast<std::size_t>(offset) * result_size_;
    const std::byte* const expected = results_.data() + static_cast<std::size_t>(position) * result_size_;
    if (std::memcmp(found, expected, static_cast<std::size_t>(length) * result_size_) == 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
      wrong += std::memcmp(found + i * result_size_, expected + i * result_size_, result_size_) != 0 ? 1 : 0;
    }
  });
  return wrong;
}

}  // namespace perf
