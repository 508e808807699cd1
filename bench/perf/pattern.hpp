// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The inputs of a reduction and its expected result, both by definition: every element is a function of (replica,
// index, call), and the result is evaluated along the canonical tree one element at a time. Shares only the element
// types with the library.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace perf {

/// The kind of values of the inputs.
enum class Values {
  mixed,       ///< values of many magnitudes, so that the order of additions shows in the bits
  order_free,  ///< small, exact values, so that every order of reduction gives the same bits
};

/// The elements of one replica's input, or of the reduction of all of them, for tensors of any length.
///
/// A prime number of elements, `period`, is computed once. Longer tensors repeat them, each repetition rotated further,
/// and each call rotates everything: a result that is stale or misplaced differs, and writing and checking buffers of
/// any size reads only small tables.
class Pattern {
 public:
  static constexpr std::int64_t period = 4093;

  /// The input of `replica` for a reduction by `op`, or for a collective that only moves data (then any op).
  [[nodiscard]] static Pattern input(lockstep::DType dtype, lockstep::ReduceOp op, int replica, Values values);
  /// The canonical reduction of the inputs of `replicas` replicas. Throws std::logic_error if `op` does not support
  /// `dtype`.
  [[nodiscard]] static Pattern result(lockstep::DType dtype, lockstep::ReduceOp op, int replicas, Values values);

  /// Fills `buffer` with the elements from `first` on of call number `call`.
  void write(std::span<std::byte> buffer, std::int64_t call, std::int64_t first = 0) const;
  /// The number of elements of `found` whose bits differ from those from `first` on of call number `call`.
  [[nodiscard]] std::int64_t count_wrong(std::span<const std::byte> found, std::int64_t call,
                                         std::int64_t first = 0) const;

 private:
  Pattern(std::vector<std::byte> table, std::size_t size) : table_(std::move(table)), size_(size) {}

  std::vector<std::byte> table_;
  std::size_t size_;  // bytes of an element
};

}  // namespace perf
