// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Texts of files, variables and other processes, which may have any bytes. Programs of apps/ and bench/ include this
// header, too.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// Number of bytes of the character in UTF-8 with which `text` begins; 0 if it does not begin with one, or is empty.
/// Overlong forms, surrogates and numbers above U+10FFFF are not characters.
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0U) != 0x80) return 0;
  }
  const bool is_wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                        (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return is_wrong ? 0 : length;
}

/// Index of the first byte that does not belong to a character in UTF-8; text.size() if all do.
[[nodiscard]] inline std::size_t utf8_prefix(std::string_view text) noexcept {
  std::size_t at = 0;
  while (const std::size_t length = utf8_length(text.substr(at))) at += length;
  return at;
}

[[nodiscard]] inline bool is_utf8(std::string_view text) noexcept { return utf8_prefix(text) == text.size(); }

/// `text` for a terminal, on one line: control characters (U+0000 to U+001F, with the ends of lines, and U+007F to
/// U+009F) and bytes that are not UTF-8 are escaped as \xNN, since a terminal may obey them. Other characters,
/// backslashes included, are unchanged; so a text that is already escaped does not change.
[[nodiscard]] inline std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view bytes = text.substr(0, length == 0 ? 1 : length);
    const auto first = static_cast<unsigned char>(bytes.front());
    const bool is_control =
        first < 0x20 || first == 0x7f || (first == 0xc2 && static_cast<unsigned char>(bytes.back()) < 0xa0);
    if (length != 0 && !is_control) {
      shown += bytes;
    } else {
      for (const char each : bytes) {
        const auto byte = static_cast<unsigned char>(each);
        shown += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
      }
    }
    text.remove_prefix(bytes.size());
  }
  return shown;
}

}  // namespace lockstep::detail
