// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The lockstep error that a call throws, and its text.

#pragma once

#include <lockstep/base/error.hpp>

#include "support/function_ref.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>

namespace lockstep::test {

/// The Error that `body` throws; none if it returns. Other exceptions are passed on.
inline std::optional<Error> thrown_by(FunctionRef<void()> body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

inline std::optional<Code> code_of(FunctionRef<void()> body) {
  const auto error = thrown_by(body);
  return error ? std::optional(error->code()) : std::nullopt;
}

/// The text of that Error with its context; "none" if `body` returns.
inline std::string error_of(FunctionRef<void()> body) {
  const auto error = thrown_by(body);
  return error ? error->what() : "none";
}

inline void expect_all(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << '"' << part << "\" is missing in: " << text;
}

}  // namespace lockstep::test
