// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/values/detail/structure.hpp>

#include <array>
#include <charconv>
#include <sstream>

namespace lockstep::detail {
namespace {

template <class Number>
std::string shortest_text(Number number) {
  std::array<char, 64> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

}  // namespace

std::string number_text(std::int64_t number) { return shortest_text(number); }
std::string number_text(std::uint64_t number) { return shortest_text(number); }
std::string number_text(float number) { return shortest_text(number); }
std::string number_text(double number) { return shortest_text(number); }
std::string number_text(long double number) { return shortest_text(number); }

std::string printed_text(const void* object, void (*print)(std::ostream& out, const void* object)) {
  std::ostringstream text;
  print(text, object);
  return text.str();
}

}  // namespace lockstep::detail
