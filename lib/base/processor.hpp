// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What those who wait and those who copy need to know of the processor.

#pragma once

#include <cstddef>

namespace lockstep::detail {

/// What caches move at a time, on all processors that we know of.
inline constexpr std::size_t line_bytes = 64;
/// Of the larger pages that x86 and ARM have.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// `value`, rounded up to a multiple of `unit`.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}
/// `bytes`, rounded up to whole cache lines.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) noexcept { return round_up(bytes, line_bytes); }

/// Tells the processor that the calling thread only waits: it leaves the core to its sibling for a moment, and the loop
/// without a flush of its pipeline. Some tens of nanoseconds.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` does nothing on most of them
#endif
}

/// Processors that this process may run on, at least 1.
[[nodiscard]] int allowed_cpus() noexcept;

/// Of this processor; a common size where the system does not say.
[[nodiscard]] std::size_t last_level_cache_bytes() noexcept;

}  // namespace lockstep::detail
