// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/files.hpp"

#include "base/check.hpp"
#include "base/output_file.hpp"

#include <lockstep/base/error.hpp>

#include <unistd.h>

#include <array>

namespace lockstep::detail {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

void replace_file(const std::string& path, std::string_view what,
                  const std::function<void(const WriteText&)>& produce) {
  try {
    FileReplacement file(path);
    produce([&](std::string_view text) { file.write(text); });
    file.finish(Durability::none);
  } catch (const FileError& error) {
    throw_error(Code::unavailable, "cannot write {} {}: {}", what, path, error.what());
  }
}

void replace_file(const std::string& path, std::string_view text, std::string_view what) {
  replace_file(path, what, [&](const WriteText& write) { write(text); });
}

}  // namespace lockstep::detail
