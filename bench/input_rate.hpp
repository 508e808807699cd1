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
    "measure how fast one thread reads, decodes and batches IDX, npy, npz, TFRecord, raw, CSV and text files of its "
    "own "
    "making, from the page cache";

/// One way to read one file.
struct InputRate {
  std::string format;
  std::string reading;             ///< what is done with it
  std::int64_t rows = 0;           ///< of one pass
  std::int64_t file_bytes = 0;     ///< of the file
  std::int64_t decoded_bytes = 0;  ///< of the tensors that come out of the file
  double seconds = 0;              ///< of a pass; median
  double cpu_seconds = 0;          ///< that this thread computed meanwhile; median
  bool is_right = true;            ///< whether a pass gave what had been written
};

/// `iterations` passes of each, on this thread. Writes some 300 MB to the folder of temporary files, and removes them.
/// Local.
[[nodiscard]] std::vector<InputRate> measure_input(std::int64_t iterations);

/// Prints a table. Local.
void print_input_rates(const std::vector<InputRate>& rates);

}  // namespace perf
