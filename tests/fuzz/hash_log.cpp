// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Hash logs: every input is a log or throws InputError.

#include "target.hpp"

#include "diff/logs.hpp"

#include <cstddef>
#include <cstdint>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(data, size);
  try {
    static_cast<void>(diff::read_log(file.path()));
  } catch (const diff::InputError&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
