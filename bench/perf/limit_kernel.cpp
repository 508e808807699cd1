// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled with -O3 in every build. Sums are plain loops, compiled once for each vector width.

#include "bench/perf/limit_kernel.hpp"

#include <algorithm>

namespace perf {
namespace {

/// Number of floats that are summed before they are stored; they stay in the L1 cache.
constexpr std::int64_t block_floats = 1024;

struct Slices {
  const float* source;
  int reads;
  float* target;
  int writes;
  std::int64_t count;
  std::int64_t stride;
};

/// Two slices, the usual case; without an intermediate block between loads and stores.
[[gnu::always_inline]] inline void sum_two(const Slices& s) {
  const float* const a = s.source;
  const float* const b = s.source + s.stride;
  float* const c = s.target;
  float* const d = s.target + s.stride;
#pragma omp simd
  for (std::int64_t i = 0; i < s.count; ++i) {
    const float sum = a[i] + b[i];
    c[i] = sum;
    d[i] = sum;
  }
}

[[gnu::always_inline]] inline void sum_many(const Slices& s) {
  alignas(64) float block[block_floats];
  for (std::int64_t begin = 0; begin < s.count; begin += block_floats) {
    const std::int64_t length = std::min(block_floats, s.count - begin);
    std::copy_n(s.source + begin, length, block);
    for (int k = 1; k < s.reads; ++k) {
      const float* const slice = s.source + k * s.stride + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i) block[i] += slice[i];
    }
    for (int k = 0; k < s.writes; ++k) std::copy_n(block, length, s.target + k * s.stride + begin);
  }
}

[[gnu::always_inline]] inline void sum(const Slices& s) {
  if (s.reads == 2 && s.writes == 2) return sum_two(s);
  sum_many(s);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void sum_avx512(const Slices& s) { sum(s); }
__attribute__((target("avx2"))) void sum_avx2(const Slices& s) { sum(s); }
#endif
void sum_portable(const Slices& s) { sum(s); }

using Sum = void (*)(const Slices&);

Sum widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) return sum_avx512;
  if (__builtin_cpu_supports("avx2") != 0) return sum_avx2;
#endif
  return sum_portable;
}

}  // namespace

void sum_slices(const float* source, int reads, float* target, int writes, std::int64_t count, std::int64_t stride) {
  static const Sum sum_of_this_processor = widest();
  sum_of_this_processor({source, reads, target, writes, count, stride});
}

}  // namespace perf
