// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Lists of gradients for lockstep-perf: every input is a list of positive numbers, or throws OptionError.

#include "target.hpp"

#include "apps/options/option_error.hpp"
#include "bench/harness/gradient_list.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(data, size);
  try {
    const std::vector<std::int64_t> counts = perf::gradient_list("--gradients", file.path());
    if (counts.empty() || *std::min_element(counts.begin(), counts.end()) < 1) std::abort();
  } catch (const options::OptionError&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
