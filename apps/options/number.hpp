// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace options {

/// The number that `text` is as a whole; none for another text, and for a number that is out of the range of Number.
/// Local.
template <class Number>
[[nodiscard]] std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  return error == std::errc{} && rest == end ? std::optional(value) : std::nullopt;
}

}  // namespace options
