// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf --input: how fast files of each format become batches.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perf {

inline constexpr const char* input_help =
    "measure how fast one thread reads, decodes and batches generated IDX, npy, npz, TFRecord, raw, CSV and text "
    "files, from the page cache";

/// One way to read one file.
struct InputRate {
  std::string format;
  std::string reading;             ///< what the pass does with the file
  std::int64_t rows = 0;           ///< rows of one pass
  std::int64_t file_bytes = 0;     ///< size of the file
  std::int64_t decoded_bytes = 0;  ///< size of the decoded tensors
  double seconds = 0;              ///< time of a pass; median
  double cpu_seconds = 0;          ///< processor time of this thread in a pass; median
  bool is_right = true;            ///< whether every pass returned the data that was written
};

/// Measures `iterations` passes of each, on this thread. Writes about 300 MB to the folder of temporary files and
/// removes them. Local.
[[nodiscard]] std::vector<InputRate> measure_input(std::int64_t iterations);

/// Prints a table. Local.
void print_input_rates(const std::vector<InputRate>& rates);

}  // namespace perf
