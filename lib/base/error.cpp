// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/base/function.hpp>

#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace lockstep {

std::string_view to_string(Code code) noexcept {
  switch (code) {
    case Code::invalid_argument: return "invalid_argument";
    case Code::failed_precondition: return "failed_precondition";
    case Code::unimplemented: return "unimplemented";
    case Code::mismatch: return "mismatch";
    case Code::deadline_exceeded: return "deadline_exceeded";
    case Code::unavailable: return "unavailable";
    case Code::out_of_range: return "out_of_range";
    case Code::data_loss: return "data_loss";
    case Code::internal: return "internal";
  }
  return "unknown";
}

Error::Error(Code code, const std::string& text, ErrorContext context)
    : std::runtime_error(std::string(to_string(code)) + ": " + text),
      code_(code),
      text_(text),
      context_(std::move(context)) {}

namespace detail {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "lockstep: internal error (a bug in lockstep): the check %s failed (%s:%d); please report it\n",
               condition, file, line);
  std::abort();
}

void throw_empty_function() {
  throw Error(Code::failed_precondition, "a lockstep::Function without a callable was called");
}

}  // namespace detail
}  // namespace lockstep
