// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/error_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace lockstep::simulation {
namespace {

/// The numbers of a list of ranks, "3, 5, 7", from `at` on.
void read_list(std::string_view text, std::size_t at, std::vector<int>& ranks) {
  for (;;) {
    int number = 0;
    const std::size_t begin = at;
    for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at)
      number = number * 10 + (text[at] - '0');
    if (at == begin) return;
    if (!contains(ranks, number)) ranks.push_back(number);
    if (text.substr(at, 2) != ", ") return;
    at += 2;
  }
}

/// Calls `use` with the place and the ranks of each clause "; ranks 3, 5 wait in ..." of the text.
template <class Use>
void each_wait(const std::string& text, const Use& use) {
  for (std::size_t at = text.find("; rank"); at != std::string::npos; at = text.find("; rank", at + 1)) {
    const std::size_t list = text.find(' ', at + 2) + 1;
    std::vector<int> ranks;
    read_list(text, list, ranks);
    if (text.substr(std::min(text.find_first_not_of("0123456789, ", list), text.size())).starts_with("wait"))
      use(at, ranks);
  }
}

}  // namespace

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::vector<int> blamed(const std::string& text) {
  const std::string common = common_part(text);
  std::vector<int> ranks;
  for (const std::string_view before : {"rank ", "ranks "}) {
    for (std::size_t at = common.find(before); at != std::string::npos; at = common.find(before, at + 1)) {
      read_list(common, at + before.size(), ranks);
    }
  }
  return ranks;
}

std::string common_part(const std::string& text) {
  std::string common = text;
  constexpr std::string_view not_called = ", which made this call too late or not at all";
  if (const std::size_t at = common.find(not_called); at != std::string::npos) common.erase(at, not_called.size());
  if (const std::size_t moved = common.find(" (moved "); moved != std::string::npos)
    common.erase(moved, common.find(')', moved) + 1 - moved);
  if (message_in(common)) {
    const std::size_t ends = std::min(common.find(" from rank "), common.size());
    common.erase(ends, std::min(common.find_first_of(",:", ends), common.size()) - ends);
  }
  constexpr std::string_view by_connection = ": the connection has ended: Connection reset by peer";
  constexpr std::string_view by_process = " has died";
  for (std::size_t at = common.find(by_connection); at != std::string::npos; at = common.find(by_connection))
    common.replace(at, by_connection.size(), by_process);
  constexpr std::string_view shortage = ": std::bad_alloc";
  const std::size_t place = common.find(" failed at ");
  if (common.starts_with("rank ") && place != std::string::npos && common.ends_with(shortage))
    common.erase(place, common.size() - shortage.size() - place);
  std::size_t first_wait = common.size();
  each_wait(common, [&](std::size_t at, const std::vector<int>&) { first_wait = std::min(first_wait, at); });
  common.resize(first_wait);
  return common;
}

std::string told(const std::string& text) {
  if (!text.starts_with("rank ")) return text;
  for (std::size_t at = text.find(" failed"); at != std::string::npos; at = text.find(": ", at + 1)) {
    const std::string rest = text.substr(at + 2);
    if (rest.starts_with("operation #") || message_in(rest)) return rest;
    if (rest.starts_with("rank ") && rest.find(" failed at ") != std::string::npos) return told(rest);
  }
  return text;
}

std::string operation_in(const std::string& text) {
  const std::size_t at = text.find("operation #");
  return at == std::string::npos ? std::string() : text.substr(at, text.find(',', at) - at);
}

std::string communicator_of(const std::string& operation) {
  return operation.substr(std::min(operation.find(" of "), operation.size()));
}

std::string wait_of(const std::string& text, int rank) {
  std::string wait;
  each_wait(text, [&](std::size_t at, const std::vector<int>& ranks) {
    if (contains(ranks, rank)) wait = text.substr(at, text.find("; rank", at + 1) - at);
  });
  return wait;
}

std::vector<int> awaited_in(const std::string& wait) {
  std::vector<int> ranks;
  for (const std::string_view before : {", for rank ", ", for ranks ", " from rank ", " to rank "}) {
    if (const std::size_t at = wait.find(before); at != std::string::npos) read_list(wait, at + before.size(), ranks);
  }
  return ranks;
}

std::optional<Message> message_in(std::string_view text) {
  const std::size_t number = text.find('#');
  const std::string_view kind = text.substr(0, std::min(number, text.size()));
  if (kind != "send " && kind != "recv " && kind != "message ") return std::nullopt;
  Message message;
  message.name = text.substr(number, text.find_first_of(",:", number) - number);
  message.has_mismatch = kind == "message ";
  const std::string_view before = kind == "send " ? " to rank " : " from rank ";
  std::vector<int> ranks;
  if (const std::size_t at = message.name.find(before); at != std::string::npos)
    read_list(message.name, at + before.size(), ranks);
  if (!ranks.empty()) message.other = ranks.front();
  return message;
}

}  // namespace lockstep::simulation
