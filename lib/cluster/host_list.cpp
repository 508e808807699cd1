// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/host_list.hpp"

#include <lockstep/cluster/slurm_cluster_resolver.hpp>

#include "base/check.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr std::size_t most_hosts = 65536;
constexpr std::size_t most_tasks = 65536;
constexpr std::size_t most_characters = 255;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_a_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

/// A position in the text. Errors name the position.
class Cursor {
 public:
  Cursor(std::string_view text, std::string_view subject) : text_(text), subject_(subject) {}

  [[nodiscard]] bool at_end() const { return place_ == text_.size(); }
  /// The next character; '\0' at the end.
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[place_]; }
  bool skip(char c) {
    if (at_end() || text_[place_] != c) return false;
    ++place_;
    return true;
  }
  /// Reads the longest run of characters for which `belongs` is true.
  template <class Belongs>
  std::string_view take(const Belongs& belongs) {
    const std::size_t begin = place_;
    while (!at_end() && belongs(text_[place_])) ++place_;
    return text_.substr(begin, place_ - begin);
  }
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    constexpr std::size_t most = 60;
    std::string shown(text_.substr(0, most));
    for (char& c : shown) {
      if (c < ' ' || c > '~') c = '?';
    }
    const std::string place = at_end() ? "its end" : fmt::format("character {}", place_ + 1);
    detail::throw_error(Code::invalid_argument, "{}: \"{}{}\", at {}: {}", subject_, shown,
                        text_.size() > most ? "..." : "", place, fmt::format(text, std::forward<Args>(args)...));
  }
  /// Converts at most 9 digits to a number.
  long number(std::string_view digits) const {
    long value = 0;
    if (digits.empty()) refuse("expected a number");
    if (digits.size() > 9) refuse("the number has more than 9 digits");
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }

 private:
  std::string_view text_;
  std::string_view subject_;
  std::size_t place_ = 0;
};

using Names = std::vector<std::string>;

/// Reads a list such as "01-03,7", up to the closing bracket. Returns 01, 02, 03, 7.
Names numbers_of_brackets(Cursor& cursor) {
  Names numbers;
  do {
    const std::string_view from = cursor.take(is_digit);
    const long first = cursor.number(from);
    long last = first;
    if (cursor.skip('-')) last = cursor.number(cursor.take(is_digit));
    if (last < first)
      cursor.refuse("the range goes from {} down to {}; the first number must be the smaller one", first, last);
    if (static_cast<std::size_t>(last - first) >= most_hosts - std::min(numbers.size(), most_hosts - 1)) {
      cursor.refuse("the list has more than {} hosts", most_hosts);
    }
    for (long number = first; number <= last; ++number) {
      numbers.push_back(fmt::format("{:0{}}", number, from.size()));
    }
  } while (cursor.skip(','));
  if (cursor.peek() == '[') cursor.refuse("nested brackets are not allowed");
  if (!cursor.skip(']')) cursor.refuse("expected a number, a range such as 01-03, a comma or ]");
  return numbers;
}

/// Every name of `names`, followed by every text of `ends`.
Names combined(const Cursor& cursor, const Names& names, const Names& ends) {
  if (names.size() * ends.size() > most_hosts) cursor.refuse("the list has more than {} hosts", most_hosts);
  Names result;
  result.reserve(names.size() * ends.size());
  for (const std::string& name : names) {
    for (const std::string& end : ends) {
      if (name.size() + end.size() > most_characters)
        cursor.refuse("the host name has more than {} characters", most_characters);
      result.push_back(name + end);
    }
  }
  return result;
}

/// The hosts of one entry. An entry is the text between two commas outside of brackets.
Names hosts_of_one(Cursor& cursor) {
  Names names{""};
  while (true) {
    const std::string_view plain = cursor.take(is_of_a_name);
    if (!plain.empty()) {
      names = combined(cursor, names, {std::string(plain)});
    } else if (cursor.skip('[')) {
      names = combined(cursor, names, numbers_of_brackets(cursor));
    } else {
      break;
    }
  }
  if (names.front().empty()) cursor.refuse("expected a host name");
  if (!cursor.at_end() && cursor.peek() != ',') {
    cursor.refuse("this character is not allowed in a host name; expected a list such as n[01-03,7],m5");
  }
  return names;
}

}  // namespace

std::vector<std::string> detail::hosts_of_list(std::string_view text, std::string_view subject) {
  Cursor cursor(text, subject);
  Names hosts;
  do {
    Names more = hosts_of_one(cursor);
    if (hosts.size() + more.size() > most_hosts) cursor.refuse("the list has more than {} hosts", most_hosts);
    hosts.insert(hosts.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  } while (cursor.skip(','));
  return hosts;
}

std::vector<int> detail::tasks_of_list(std::string_view text, std::string_view subject) {
  Cursor cursor(text, subject);
  std::vector<int> tasks;
  do {
    const long count = cursor.number(cursor.take(is_digit));
    if (count < 1) cursor.refuse("the number of tasks is 0; it must be at least 1");
    long times = 1;
    if (cursor.skip('(')) {
      if (!cursor.skip('x')) cursor.refuse("expected x and a number, as in 3(x2)");
      times = cursor.number(cursor.take(is_digit));
      if (times < 1) cursor.refuse("the number of nodes is 0; it must be at least 1");
      if (!cursor.skip(')')) cursor.refuse("expected ), as in 3(x2)");
    }
    if (static_cast<std::size_t>(times) > most_tasks - tasks.size())
      cursor.refuse("the list has more than {} nodes", most_tasks);
    tasks.insert(tasks.end(), static_cast<std::size_t>(times), static_cast<int>(count));
  } while (cursor.skip(','));
  if (!cursor.at_end()) cursor.refuse("expected a comma; a list looks like 3(x2),2,1");
  return tasks;
}

std::vector<std::string> expand_hostlist(std::string_view text) {
  return detail::hosts_of_list(text, "expand_hostlist");
}

std::vector<int> expand_tasks_per_node(std::string_view text) {
  return detail::tasks_of_list(text, "expand_tasks_per_node");
}

}  // namespace lockstep
