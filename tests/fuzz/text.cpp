// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "target.hpp"

#include <lockstep/input/records.hpp>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run(data, size, [](const auto& path) {
    fuzz::read_some(lockstep::text_line_dataset({path}, {.max_record_bytes = 1 << 14}));
  });
  return 0;
}
