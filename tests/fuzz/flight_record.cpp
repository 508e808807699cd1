// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Flight records: every input is refused, or can be explained in texts without control characters.

#include "explain/explanation.hpp"
#include "explain/records.hpp"

#include "target.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(data, size);
  try {
    const std::string text = explain::explain(explain::select_job({explain::read_record(file.path())}, {}));
    if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n'; }))
      std::abort();
  } catch (const explain::InputError&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
