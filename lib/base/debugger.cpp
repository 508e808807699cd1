// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/debugger.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace lockstep::detail {

bool is_traced(std::int64_t process) noexcept {
  std::array<char, 48> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/status", process);
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 1024> bytes;  // the line is one of the first
  const ssize_t size = read(file, bytes.data(), bytes.size());
  close(file);
  const std::string_view text(bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  constexpr std::string_view field = "TracerPid:\t";
  const std::size_t begin = text.find(field);
  return begin != std::string_view::npos && begin + field.size() < text.size() && text[begin + field.size()] != '0';
}

}  // namespace lockstep::detail
