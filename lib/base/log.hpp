// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Warnings for the user. Each warning is one line on stderr, marked with the rank that writes the line.

#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace lockstep::detail {

/// Sets the rank that log lines show. Called once, when the rank in MPI is known. Before this call, log lines show no
/// rank. Thread-safe.
void set_log_rank(int rank) noexcept;

/// Writes "lockstep: [rank r] text\n", without "[rank r] " if the rank is unknown, in one call. Never throws.
/// Thread-safe.
void log_line(std::string_view text) noexcept;

template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) noexcept {
  try {
    log_line(fmt::format(text, std::forward<Args>(args)...));
  } catch (...) {
    log_line("a warning could not be formatted");
  }
}

}  // namespace lockstep::detail
