// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/elementwise.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::detail {
namespace {

/// Number of elements that are combined at a time. Results are collected before they are stored, so that the compiler
/// can use vectors even if the target is an operand.
constexpr std::int64_t block_elements = 256;

/// The elements of an operand, block by block. A number fills one block.
template <class T>
class Blocks {
 public:
  explicit Blocks(const Operand& operand) : array_(static_cast<const T*>(operand.array)) {
    if (array_ != nullptr) return;
    T number;
    std::memcpy(&number, operand.number.data(), sizeof(T));
    std::fill_n(numbers_, block_elements, number);
  }
  [[nodiscard]] const T* at(std::int64_t first) const { return array_ != nullptr ? array_ + first : numbers_; }

 private:
  const T* array_;
  T numbers_[block_elements];
};

template <ElementOp op, class T>
void compute(const Elementwise& what) {
  using Wide = operand_t<T>;
  const Blocks<T> left_blocks(what.left);
  const Blocks<T> right_blocks(what.right);
  for (std::int64_t first = 0; first < what.count; first += block_elements) {
    const std::int64_t size = std::min(block_elements, what.count - first);
    const T* const left = left_blocks.at(first);
    const T* const right = right_blocks.at(first);
    T results[block_elements];
    for (std::int64_t i = 0; i < size; ++i) {
      results[i] = finish<T>(combine_elements<op>(static_cast<Wide>(left[i]), static_cast<Wide>(right[i])));
    }
    std::copy_n(results, size, static_cast<T*>(what.target) + first);
  }
}

template <class T>
void compute(const Elementwise& what) {
  switch (what.op) {
    case ElementOp::add: return compute<ElementOp::add, T>(what);
    case ElementOp::sub: return compute<ElementOp::sub, T>(what);
    case ElementOp::mul: return compute<ElementOp::mul, T>(what);
    case ElementOp::div: return compute<ElementOp::div, T>(what);
    default: LOCKSTEP_CHECK(false);
  }
}

}  // namespace

void compute_elementwise(const Elementwise& what) {
  visit_dtype(what.dtype, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      LOCKSTEP_CHECK(what.dtype != DType::boolean);
    } else {
      compute<T>(what);
    }
  });
}

}  // namespace lockstep::detail
