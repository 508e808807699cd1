// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/files.hpp"

#include "base/check.hpp"

#include <lockstep/base/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <system_error>

namespace lockstep::detail {
namespace {

[[noreturn]] void throw_cannot_write(std::string_view what, const std::string& path) {
  throw_error(Code::unavailable, "cannot write {} {}: {}", what, path, std::generic_category().message(errno));
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

bool write_all(int file, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    if (written == 0 || (written < 0 && errno != EINTR)) return false;
  }
  return true;
}

void replace_file(const std::string& path, std::string_view text, std::string_view what) {
  static std::atomic<unsigned> count{0};  // several threads may write at the same time
  const std::string part = fmt::format("{}.part{}-{}", path, ::getpid(), ++count);
  ::unlink(part.c_str());
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) throw_cannot_write(what, path);
  const bool is_good = write_all(file, text);
  const int error = errno;
  if (::close(file) == 0 && is_good && ::rename(part.c_str(), path.c_str()) == 0) return;
  const int last_error = is_good ? errno : error;
  ::unlink(part.c_str());
  errno = last_error;
  throw_cannot_write(what, path);
}

}  // namespace lockstep::detail
