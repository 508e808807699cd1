// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks. `throw_error` reports errors of the user and faults of the system. LOCKSTEP_CHECK is for bugs of lockstep: it
// aborts the process, because a dead rank is visible, and a rank with silently wrong results is not.

#pragma once

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace lockstep::detail {

/// Throws Error(code) with a formatted text.
template <class... Args>
[[noreturn]] void throw_error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// Prints the failed condition with its file and line, and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace lockstep::detail

#define LOCKSTEP_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::lockstep::detail::check_failed(#condition, __FILE__, __LINE__))
