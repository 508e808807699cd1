// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/pattern.hpp"

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

/// The finalizer of splitmix64: 64 bits that depend on all bits of (replica, index).
std::uint64_t random_word(int replica, std::int64_t index) {
  std::uint64_t word =
      (static_cast<std::uint64_t>(replica) << 32) + static_cast<std::uint64_t>(index) + 0x9e3779b97f4a7c15u;
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

/// Small: Open MPI's vector sums of 8 and 16 bits saturate where others wrap.
template <class T>
T order_free_integer(std::uint64_t word) {
  const auto value = static_cast<std::int64_t>(word % 5);
  return static_cast<T>(std::is_signed_v<T> ? value - 2 : value);
}

template <class T>
T element(int replica, std::int64_t index, ReduceOp op, Values values) {
  const std::uint64_t word = random_word(replica, index);
  if constexpr (std::is_same_v<T, bool>) {
    return (word & 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return values == Values::mixed ? static_cast<T>(word) : order_free_integer<T>(word);
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
  if (op == ReduceOp::min) return b < a ? b : a;  // the patterns contain no NaN and no -0
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

/// The node of the tree over replicas [first, first + width): its left half, plus its right half if that has replicas.
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

template <class T>
void fill_inputs(std::vector<std::byte>& table, ReduceOp op, int replica, Values values) {
  table.resize(Pattern::period * sizeof(T));
  for (std::int64_t i = 0; i < Pattern::period; ++i) store(table, i, element<T>(replica, i, op, values));
}

/// T: type of the elements, A: of partial results, O: of results.
template <class T, class A, class O>
void fill_results(std::vector<std::byte>& table, ReduceOp op, int replicas, Values values) {
  table.resize(Pattern::period * sizeof(O));
  const auto leaves = std::make_unique<A[]>(static_cast<std::size_t>(replicas));
  std::size_t width = 1;
  while (width < static_cast<std::size_t>(replicas)) width *= 2;
  for (std::int64_t i = 0; i < Pattern::period; ++i) {
    for (int r = 0; r < replicas; ++r) {
      leaves[static_cast<std::size_t>(r)] = static_cast<A>(element<T>(r, i, op, values));
    }
    A root = tree(std::span<const A>(leaves.get(), static_cast<std::size_t>(replicas)), 0, width, op);
    if constexpr (std::is_floating_point_v<A>) {
      if (op == ReduceOp::mean) root = root / static_cast<A>(replicas);
    }
    store(table, i, static_cast<O>(root));
  }
}

template <class T>
void fill_results_of(std::vector<std::byte>& table, ReduceOp op, int replicas, Values values) {
  if constexpr (is_narrow_float<T>) {
    fill_results<T, float, T>(table, op, replicas, values);
  } else {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (op == ReduceOp::mean) return fill_results<T, double, double>(table, op, replicas, values);
    }
    fill_results<T, T, T>(table, op, replicas, values);
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

/// Calls `visit(offset, position, length)` for the runs of `count` elements that begin with number `first` of a tensor:
/// `length` elements from `offset` on are those of the table from `position` on.
template <class Visit>
void for_runs(std::int64_t first, std::int64_t count, std::int64_t call, Visit visit) {
  constexpr std::int64_t period = Pattern::period;
  for (std::int64_t offset = 0; offset < count;) {
    const std::int64_t repetition = (first + offset) / period;
    const std::int64_t within = (first + offset) % period;
    const std::int64_t position = (call % period * 31 + repetition % period * 1031 + within) % period;
    const std::int64_t length = std::min({count - offset, period - within, period - position});
    visit(static_cast<std::size_t>(offset), static_cast<std::size_t>(position), static_cast<std::size_t>(length));
    offset += length;
  }
}

}  // namespace

Pattern Pattern::input(DType dtype, ReduceOp op, int replica, Values values) {
  std::vector<std::byte> table;
  with_type(dtype, [&]<class T>(T) { fill_inputs<T>(table, op, replica, values); });
  return {std::move(table), lockstep::size_of(dtype)};
}

Pattern Pattern::result(DType dtype, ReduceOp op, int replicas, Values values) {
  if (!lockstep::supports(op, dtype)) throw std::logic_error("this op does not support this dtype");
  std::vector<std::byte> table;
  with_type(dtype, [&]<class T>(T) { fill_results_of<T>(table, op, replicas, values); });
  return {std::move(table), lockstep::size_of(lockstep::result_dtype(op, dtype))};
}

void Pattern::write(std::span<std::byte> buffer, std::int64_t call, std::int64_t first) const {
  for_runs(first, static_cast<std::int64_t>(buffer.size() / size_), call, [&](auto offset, auto position, auto length) {
    std::memcpy(buffer.data() + offset * size_, table_.data() + position * size_, length * size_);
  });
}

std::int64_t Pattern::count_wrong(std::span<const std::byte> found, std::int64_t call, std::int64_t first) const {
  std::int64_t wrong = 0;
  for_runs(first, static_cast<std::int64_t>(found.size() / size_), call, [&](auto offset, auto position, auto length) {
    const std::byte* const found_run = found.data() + offset * size_;
    const std::byte* const expected = table_.data() + position * size_;
    if (std::memcmp(found_run, expected, length * size_) == 0) return;
    for (std::size_t i = 0; i < length; ++i) {
      wrong += std::memcmp(found_run + i * size_, expected + i * size_, size_) != 0 ? 1 : 0;
    }
  });
  return wrong;
}

}  // namespace perf
