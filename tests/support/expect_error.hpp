// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/error.hpp>

#include "support/function_ref.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::test {

/// Expects that `body` throws an Error with that code whose text contains all `parts`.
inline void expect_error(Code code, const std::vector<std::string>& parts, FunctionRef<void()> body) {
  try {
    body();
    ADD_FAILURE() << "no error, but " << to_string(code) << " is expected";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(error.text().find(part), std::string::npos) << '"' << part << "\" is missing in: " << error.what();
    }
  }
}

}  // namespace lockstep::test
