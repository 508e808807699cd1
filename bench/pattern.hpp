// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What goes into a reduction and what must come out, both by definition: every element is a function of (replica,
// index, call), and the result is evaluated along the canonical tree one element at a time, sharing nothing with the
// library but the element types.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace perf {

/// Which values the inputs have.
enum class Values {
  mixed,       ///< of many magnitudes, so that the order of additions shows in the bits
  order_free,  ///< small and exact, so that every order of reduction gives the same bits
};

/// The elements of one replica's input, or of the reduction of all of them, for tensors of any length.
///
/// A prime number of elements, `period`, is computed once. Longer tensors repeat them, each repetition rotated further,
/// and each call rotates everything: a result that is stale or at the wrong place differs, and no more than small
/// tables are read while buffers of any size are written and checked.
class Pattern {
 public:
  static constexpr std::int64_t period = 4093;

  /// What `replica` gives to a reduction by `op`, or to a collective that only moves data (then any op).
  [[nodiscard]] static Pattern input(lockstep::DType dtype, lockstep::ReduceOp op, int replica, Values values);
  /// The canonical reduction of the inputs of `replicas` replicas. Throws std::logic_error when `op` does not take
  /// `dtype`.
  [[nodiscard]] static Pattern result(lockstep::DType dtype, lockstep::ReduceOp op, int replicas, Values values);

  /// Fills `buffer` with the elements from `first` on of call number `call`.
  void write(std::span<std::byte> buffer, std::int64_t call, std::int64_t first = 0) const;
  /// The number of elements of `found` whose bits are not those from `first` on of call number `call`.
  [[nodiscard]] std::int64_t count_wrong(std::span<const std::byte> found, std::int64_t call,
                                         std::int64_t first = 0) const;

 private:
  Pattern(std::vector<std::byte> table, std::size_t size) : table_(std::move(table)), size_(size) {}

  std::vector<std::byte> table_;
  std::size_t size_;  // of an element
};

}  // namespace perf
