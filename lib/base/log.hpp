// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One line to stderr, whole: a warning that a user must see, marked with the rank that says it.

#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace lockstep::detail {

/// The rank that log lines carry; set once when MPI is known, -1 before. Thread-safe.
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
