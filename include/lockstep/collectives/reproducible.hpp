// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums over vectors that are distributed over the ranks, with the same bits for every number of ranks and every
// distribution. A solver that takes its dot products from here makes the same iterations on 1 rank and on 100.
//
// An all_reduce adds one number per rank, so another number of ranks gives other addends, and other bits. Here the sum
// is defined by a tree over the elements: blocks of 64 elements, by global index, are added in a fixed order, and
// blocks are joined in pairs (pairwise summation; Higham: The Accuracy of Floating Point Summation, 1993). A rank adds
// the nodes of the tree that lie in its part; the ranks exchange these, and the elements of blocks that two ranks
// share, and each adds the rest.
//
// Cost: one pass over the part of the rank, and an all_gather of 1.9 KiB per rank. The error of a sum of n elements
// grows with log n, and not with n as in a loop.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <span>

namespace lockstep::reproducible {

/// The sum of x[i] * y[i] over the parts of all ranks. `x` and `y` are the elements of this rank, from global index
/// `offset` on; a part may be empty. The parts of all ranks must follow one another from index 0 on, in any order of
/// ranks. Products and sums are computed in double precision.
///
/// Collective over `communicator`, with one replica per rank; every rank gets the same bits. Of `options`, `name` and
/// `order` have no effect. Throws Error(invalid_argument) on all ranks if the parts overlap or leave a gap, or if
/// a rank has several replicas; on this rank if x and y have different lengths or `offset` is negative, and
/// Error(unavailable) on the others. Thread-safety: as Communicator::all_gather.
[[nodiscard]] LOCKSTEP_API double dot(const Communicator& communicator, std::span<const double> x,
                                      std::span<const double> y, std::int64_t offset,
                                      const ReduceOptions& options = {});
[[nodiscard]] LOCKSTEP_API double dot(const Communicator& communicator, std::span<const float> x,
                                      std::span<const float> y, std::int64_t offset, const ReduceOptions& options = {});

/// The sum of x[i] over the parts of all ranks; otherwise as `dot`.
[[nodiscard]] LOCKSTEP_API double sum(const Communicator& communicator, std::span<const double> x, std::int64_t offset,
                                      const ReduceOptions& options = {});
[[nodiscard]] LOCKSTEP_API double sum(const Communicator& communicator, std::span<const float> x, std::int64_t offset,
                                      const ReduceOptions& options = {});

/// The Euclidean norm of x: the square root of dot(x, x). Squares above the range of double become infinite.
[[nodiscard]] LOCKSTEP_API double norm(const Communicator& communicator, std::span<const double> x, std::int64_t offset,
                                       const ReduceOptions& options = {});
[[nodiscard]] LOCKSTEP_API double norm(const Communicator& communicator, std::span<const float> x, std::int64_t offset,
                                       const ReduceOptions& options = {});

}  // namespace lockstep::reproducible
