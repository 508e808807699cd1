// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of lockstep-perf, as a baseline: every input is one of this job, or throws OptionError.

#include "target.hpp"

#include "apps/options/option_error.hpp"
#include "bench/perf/baseline.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(data, size);
  const std::array<perf::Identity, 1> rows{
      perf::Identity{.collective = "all_reduce", .count = 2, .dtype = "f32", .op = "sum"}};
  try {
    const perf::Baseline baseline(file.path(), 2, rows);
    if (!baseline.time_us(rows[0])) std::abort();
  } catch (const options::OptionError&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
