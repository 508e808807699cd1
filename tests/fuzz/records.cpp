// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "target.hpp"

#include <lockstep/input/records.hpp>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // the first two bytes encode the lengths of header, footer and records
  if (size < 2) return 0;
  const std::int64_t record = 1 + data[0] % 16;
  const std::int64_t header = data[0] / 16;
  const std::int64_t footer = data[1] / 16;
  for (const auto compression : {lockstep::Compression::none, lockstep::Compression::gzip}) {
    fuzz::run(data + 2, size - 2, [&](const auto& path) {
      fuzz::read_some(lockstep::fixed_length_record_dataset({path}, record, {header, footer, compression}));
    });
  }
  return 0;
}
