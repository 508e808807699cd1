// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_nccl_arithmetic.hpp"

#include "core/visit_dtype.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

namespace lockstep::test {
namespace {

using detail::nccl::RedOp;

constexpr std::size_t block_elements = 64;  // elements that are added in the same order

// As NCCL: min and max ignore a NaN, integers wrap, 16-bit floats are rounded at each step
template <class T>
T combine_as_nccl(T a, T b, RedOp op) {
  using Wide = detail::sum_t<T>;
  const Wide x = static_cast<Wide>(a);
  const Wide y = static_cast<Wide>(b);
  switch (op) {
    case RedOp::sum: return static_cast<T>(x + y);
    case RedOp::prod: return static_cast<T>(x * y);
    case RedOp::min:
    case RedOp::max: break;
  }
  if constexpr (std::is_integral_v<T>) {
    return op == RedOp::min ? std::min(a, b) : std::max(a, b);
  } else {
    return static_cast<T>(op == RedOp::min ? std::fmin(x, y) : std::fmax(x, y));
  }
}

template <class T>
void fold_piece(std::byte* target, std::span<const std::byte* const> sources, std::span<const std::size_t> order,
                std::size_t begin, std::size_t end, RedOp op) {
  for (std::size_t i = begin; i < end; ++i) {
    T sum;
    std::memcpy(&sum, sources[order.front()] + i * sizeof(T), sizeof(T));
    for (const std::size_t rank : order.subspan(1)) {
      T next;
      std::memcpy(&next, sources[rank] + i * sizeof(T), sizeof(T));
      sum = combine_as_nccl(sum, next, op);
    }
    std::memcpy(target + i * sizeof(T), &sum, sizeof(T));
  }
}

}  // namespace

void fold_as_nccl(std::byte* target, std::span<const std::byte* const> sources, std::size_t count, DType dtype,
                  RedOp op, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  detail::visit_dtype(dtype, [&]<class Named>() {
    using T = std::conditional_t<std::is_same_v<Named, bool>, std::uint8_t, Named>;
    for (std::size_t begin = 0; begin < count; begin += block_elements) {
      std::shuffle(order.begin(), order.end(), random);
      fold_piece<T>(target, sources, order, begin, std::min(count, begin + block_elements), op);
    }
  });
}

}  // namespace lockstep::test
