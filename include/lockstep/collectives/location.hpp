// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest or largest value over all ranks together with the place where it is: MPI_MINLOC and MPI_MAXLOC.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/elements.hpp>
#include <lockstep/core/dtype.hpp>

#include <cstdint>

namespace lockstep {

/// Element by element, replaces the value by the minimum over all ranks (ReduceOp::min), and the index by the index of
/// a rank that has this value; if several ranks have it, by the lowest of their indices. Values that compare as equal
/// are the same value, so -0 is the same as +0; if a value is NaN, the result is NaN, and ranks with NaN have it.
///
/// `values` and `indices` have the same number of elements and must not overlap; both are reduced in place, on all
/// ranks. Both are in host memory. `values` may have any dtype; `indices` are i32, i64, u32, u64, f32 or f64, and none
/// of them is NaN.
///
/// Collective, with one replica per rank. Of `options`, `order` has no effect. In errors of the agreement, the call is
/// an all_gather or an all_reduce named minloc, or "NAME (minloc)" if `options` have a name. Throws what
/// Communicator::all_reduce throws; for a wrong argument Error(invalid_argument) on this rank, and Error(unavailable)
/// on the others; if a rank has several replicas, Error(invalid_argument) on all ranks. After an error, `values` and
/// `indices` have their old contents or are undefined. Thread-safety: as Communicator::all_reduce.
///
/// Cost: if all ranks together have at most 2 KiB of values and indices, one all_gather; otherwise an all_reduce of the
/// values and one of the indices, each with its own timeout, and memory for a copy of both.
LOCKSTEP_API void minloc(const Communicator& communicator, Elements values, Elements indices,
                         const ReduceOptions& options = {});

/// The maximum, by ReduceOp::max; if several ranks have it, also with the lowest of their indices. Otherwise as
/// `minloc`.
LOCKSTEP_API void maxloc(const Communicator& communicator, Elements values, Elements indices,
                         const ReduceOptions& options = {});

/// A value, and the index that stands with it.
template <Element T>
struct Located {
  T value;
  std::int64_t index;
  friend constexpr bool operator==(const Located&, const Located&) = default;
};

/// `minloc` of one value per rank, which is returned: `auto [error, rank] = maxloc(comm, error_here, comm.rank())`.
/// `value` and `index` do not change.
template <Element T>
[[nodiscard]] Located<T> minloc(const Communicator& communicator, T value, std::int64_t index,
                                const ReduceOptions& options = {}) {
  minloc(communicator, Elements(value), Elements(index), options);
  return {value, index};
}
template <Element T>
[[nodiscard]] Located<T> maxloc(const Communicator& communicator, T value, std::int64_t index,
                                const ReduceOptions& options = {}) {
  maxloc(communicator, Elements(value), Elements(index), options);
  return {value, index};
}

}  // namespace lockstep
