// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

namespace options {

/// The first word between percent signs in `text`, with these; empty if there is none. Boost puts the names and values
/// of options in the place of words such as "%value%" of its errors, again and again as long as there is such a word:
/// it would never end if a name or value had one.
[[nodiscard]] inline std::string_view placeholder_in(std::string_view text) noexcept {
  for (auto begin = text.find('%'); begin != std::string_view::npos; begin = text.find('%', begin + 1)) {
    const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin + 1);
    if (end != std::string_view::npos && text[end] == '%' && end > begin + 1)
      return text.substr(begin, end + 1 - begin);
  }
  return {};
}

}  // namespace options
