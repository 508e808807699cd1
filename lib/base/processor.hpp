// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Properties of the processor that matter for waiting and copying.

#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// Size of a cache line, on all processors that lockstep supports.
inline constexpr std::size_t line_bytes = 64;
/// Size of a huge page on x86 and ARM.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// `value`, rounded up to a multiple of `unit`.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}
/// `bytes`, rounded up to whole cache lines.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) noexcept { return round_up(bytes, line_bytes); }

/// The processors that a process may run on.
struct AllowedCpus {
  std::int32_t first = 0;  ///< the lowest number of them
  std::int32_t count = 1;
  friend bool operator==(const AllowedCpus&, const AllowedCpus&) = default;
};

/// The processors that this process may run on now.
[[nodiscard]] AllowedCpus allowed_cpus() noexcept;

/// Size of the last-level cache of this processor; a common size if the system does not tell the size.
[[nodiscard]] std::size_t last_level_cache_bytes() noexcept;

}  // namespace lockstep::detail
