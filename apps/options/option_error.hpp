// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace options {

/// An option has an invalid value. The text names the option, the value and the rule.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws OptionError.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw OptionError(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace options
