// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Flight records: every input is a record, which can be explained, or throws InputError.

#include "target.hpp"

#include "explain/explanation.hpp"
#include "explain/records.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(data, size);
  try {
    std::vector<explain::Record> records;
    records.push_back(explain::read_record(file.path()));
    volatile std::size_t sink = explain::explain(explain::select_job(std::move(records), "all")).size();
    static_cast<void>(sink);
  } catch (const explain::InputError&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
