// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/canonical_sum.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace lockstep::test {
namespace {

template <class T>
T read(const Bytes& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void write(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

/// The type in which values of T are combined.
template <class T, ReduceOp op>
using Wide = std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float,
                                std::conditional_t<op == ReduceOp::mean && std::is_integral_v<T>, double, T>>;

template <class A>
A smallest_or_largest(A a, A b, bool smallest) {
  if constexpr (std::is_floating_point_v<A>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<A>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) == smallest ? a : b;
  }
  return (a < b) == smallest ? a : b;
}

template <ReduceOp op, class A>
A combine(A a, A b) {
  if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
    return smallest_or_largest(a, b, op == ReduceOp::min);
  } else if constexpr (std::is_integral_v<A>) {
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

/// The node over replicas [first, first + size): left half and, unless it is empty, right half.
template <ReduceOp op, class A>
A tree(const std::vector<A>& leaves, std::size_t first, std::size_t size) {
  if (size == 1) return leaves[first];
  const A left = tree<op>(leaves, first, size / 2);
  if (first + size / 2 >= leaves.size()) return left;
  return combine<op>(left, tree<op>(leaves, first + size / 2, size / 2));
}

template <ReduceOp op, class T>
Bytes reduce_all(const std::vector<Bytes>& leaves, bool from_left) {
  using A = Wide<T, op>;
  using O = std::conditional_t<op == ReduceOp::mean && std::is_integral_v<T>, double, T>;
  const std::size_t count = leaves.front().size() / sizeof(T);
  Bytes result(count * sizeof(O));
  std::size_t width = 1;
  while (width < leaves.size()) width *= 2;
  std::vector<A> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.clear();
    for (const Bytes& leaf : leaves) values.push_back(static_cast<A>(read<T>(leaf, i)));
    A root = values.front();
    if (from_left) {
      for (std::size_t r = 1; r < values.size(); ++r) root = combine<op>(root, static_cast<A>(values[r]));
    } else {
      root = tree<op>(values, 0, width);
    }
    if constexpr (op == ReduceOp::mean) root = root / static_cast<A>(leaves.size());
    if constexpr (std::is_floating_point_v<A>) {
      if (std::isnan(root)) root = std::numeric_limits<A>::quiet_NaN();
    }
    write<O>(result, i, static_cast<O>(root));
  }
  return result;
}

template <class T>
Bytes reduce_type(ReduceOp op, const std::vector<Bytes>& leaves, bool from_left) {
  switch (op) {
    case ReduceOp::min: return reduce_all<ReduceOp::min, T>(leaves, from_left);
    case ReduceOp::max: return reduce_all<ReduceOp::max, T>(leaves, from_left);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case ReduceOp::band: return reduce_all<ReduceOp::band, T>(leaves, from_left);
      case ReduceOp::bor: return reduce_all<ReduceOp::bor, T>(leaves, from_left);
      case ReduceOp::bxor: return reduce_all<ReduceOp::bxor, T>(leaves, from_left);
      default: break;
    }
  }
  if constexpr (!std::is_same_v<T, bool>) {
    switch (op) {
      case ReduceOp::sum: return reduce_all<ReduceOp::sum, T>(leaves, from_left);
      case ReduceOp::mean: return reduce_all<ReduceOp::mean, T>(leaves, from_left);
      case ReduceOp::prod: return reduce_all<ReduceOp::prod, T>(leaves, from_left);
      default: break;
    }
  }
  throw std::logic_error("this dtype does not take this op");
}

template <class Visit>
Bytes with_type(DType dtype, Visit visit) {
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
  throw std::logic_error("no such dtype");
}

/// splitmix64: needs no set-up, so that short tensors are cheap.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    std::uint64_t word = state_ += 0x9e3779b97f4a7c15u;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
  }

 private:
  std::uint64_t state_;
};

template <class T>
T awkward_value(Random& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return (random() & 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random());
  } else {
    switch (random() % 64) {
      case 0: return T(0.0f);
      case 1: return T(-0.0f);
      case 2: return T(std::numeric_limits<float>::infinity());
      case 3: return T(-std::numeric_limits<float>::infinity());
      case 4: return T(std::numeric_limits<float>::quiet_NaN());
      case 5: return T(1e-40f);
      default: break;
    }
    const double fraction = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    const auto power = static_cast<double>(std::uint64_t{1} << random() % 24);
    return T(static_cast<float>(fraction * power * 0x1p-12));  // exact but for the last conversion
  }
}

}  // namespace

Bytes canonical_reduce(ReduceOp op, DType dtype, const std::vector<Bytes>& leaves) {
  return with_type(dtype, [&]<class T>(T) { return reduce_type<T>(op, leaves, false); });
}

Bytes left_fold(ReduceOp op, DType dtype, const std::vector<Bytes>& leaves) {
  return with_type(dtype, [&]<class T>(T) { return reduce_type<T>(op, leaves, true); });
}

Bytes awkward_values(DType dtype, std::int64_t count, std::uint64_t seed) {
  return with_type(dtype, [&]<class T>(T) {
    Random random(seed * 0xd1342543de82ef95u + static_cast<std::uint64_t>(dtype));
    Bytes bytes(static_cast<std::size_t>(count) * sizeof(T));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) write<T>(bytes, i, awkward_value<T>(random));
    return bytes;
  });
}

}  // namespace lockstep::test
