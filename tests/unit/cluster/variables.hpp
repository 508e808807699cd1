// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdlib>
#include <map>
#include <string>

namespace lockstep::test {

using VariableMap = std::map<std::string, std::string>;

/// Sets environment variables, and unsets them in the destructor.
class Variables {
 public:
  explicit Variables(const VariableMap& variables) : variables_(variables) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

 private:
  VariableMap variables_;
};

}  // namespace lockstep::test
