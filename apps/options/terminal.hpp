// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdlib>

namespace options {

/// Whether the user permits colors: NO_COLOR is not set, or empty (https://no-color.org). Local.
[[nodiscard]] inline bool permits_colors() {
  const char* const no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

}  // namespace options
