// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace options {

/// "1 rank", "2 ranks": a number and its noun, whose plural ends in s. Local.
[[nodiscard]] inline std::string counted(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace options
