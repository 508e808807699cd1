// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of float by oneDNN, which chooses its kernels for the CPU at run time.

#pragma once

#include <cstdint>

namespace train {

/// The layout of an operand in memory: as in the formula, or transposed.
enum class Layout : char { plain = 'N', transposed = 'T' };
/// The use of the output's old contents. `overwrite` never reads them.
enum class Output { overwrite, accumulate };

/// A factor of a product: a dense row-major matrix.
struct Factor {
  const float* data;
  Layout layout = Layout::plain;
};
[[nodiscard]] constexpr Factor plain(const float* data) { return {data, Layout::plain}; }
[[nodiscard]] constexpr Factor transposed(const float* data) { return {data, Layout::transposed}; }

/// c[m, n] = or += a[m, k] b[k, n], where a transposed `a` is stored as [k, m] and a transposed `b` as [n, k]. Any size
/// may be 0: an empty sum is 0. `c` overlaps neither factor. Computes in the calling thread alone, whatever
/// OMP_NUM_THREADS says. Thread-safety: any thread. Equal sizes and values give equal bits. Throws std::runtime_error
/// if oneDNN fails, also if it is out of memory.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor a, Factor b, float* c,
          Output output = Output::overwrite);

}  // namespace train
