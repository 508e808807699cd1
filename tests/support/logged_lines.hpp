// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the communicators of this process write to a hash log.

#pragma once

#include "cluster/hash_log.hpp"
#include "support/function_ref.hpp"
#include "support/temporary_directory.hpp"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::test {

/// The lines of the hash log while `body` runs.
inline std::vector<std::string> logged_lines(FunctionRef<void()> body) {
  const TemporaryDirectory directory;
  detail::set_hash_log(std::make_shared<detail::HashLog>(directory.path().string(), 0, 1));
  body();
  detail::set_hash_log(nullptr);
  std::vector<std::string> lines;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) lines.push_back(line);
  }
  return lines;
}

}  // namespace lockstep::test
