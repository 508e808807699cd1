// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Warnings for the user: each is one whole line on stderr, marked with the rank that writes it.

#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace lockstep::detail {

/// Sets the rank that log lines carry. Called once, when MPI is known; the rank is -1 before. Thread-safe.
void set_log_rank(int rank) noexcept;

/// Writes "lockstep: [rank r] text\n" in one call. Never throws. Thread-safe.
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
