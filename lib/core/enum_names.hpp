// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Conversion between enumerators and their names: `names[i]` is the name of the enumerator with the value i.

#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::detail {

/// Whether `a` and `b` are equal when the case of ASCII characters is ignored.
[[nodiscard]] inline bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// The name of `value`; "unknown" if `value` is not an enumerator.
template <class Enum>
[[nodiscard]] std::string_view name_of(Enum value, std::span<const std::string_view> names) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < names.size() ? names[index] : "unknown";
}

/// The enumerator with this name, in any case of letters; std::nullopt if there is none.
template <class Enum>
[[nodiscard]] std::optional<Enum> find_enumerator(std::string_view name, std::span<const std::string_view> names) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [name](std::string_view known) { return equal_ignoring_case(name, known); });
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace lockstep::detail
