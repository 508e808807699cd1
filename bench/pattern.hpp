// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What goes into a reduction and what must come out, both by definition: every element is a function of (rank, index,
// call), and the result is evaluated along the canonical tree one element at a time, sharing nothing with the library
// but the element types.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace perf {

/// Which values the inputs have.
enum class Values {
  mixed,       ///< of many magnitudes, so that the order of additions shows in the bits
  order_free,  ///< small and exact, so that every order of reduction gives the same bits
};

/// The inputs of one rank, and the results of all ranks together, for tensors of any length.
///
/// A prime number of elements, `period`, is computed once. Longer tensors repeat them, each repetition rotated further,
/// and each call rotates everything: a result that is stale or at the wrong place differs, and no more than two small
/// tables are read while buffers of any size are written and checked.
class Pattern {
 public:
  static constexpr std::int64_t period = 4093;

  /// Local. Throws std::logic_error when `op` does not take `dtype`.
  Pattern(lockstep::DType dtype, lockstep::ReduceOp op, int rank, int ranks, Values values);

  /// Fills `buffer` with this rank's input of call number `call`.
  void write(std::span<std::byte> buffer, std::int64_t call) const;
  /// Reads `result`; the number of elements whose bits are not those of the canonical reduction in call number `call`.
  [[nodiscard]] std::int64_t count_wrong(std::span<const std::byte> result, std::int64_t call) const;

 private:
  std::size_t input_size_;
  std::size_t result_size_;
  std::vector<std::byte> inputs_;
  std::vector<std::byte> results_;
};

}  // namespace perf
