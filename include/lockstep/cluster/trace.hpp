// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Traces of a job (LOCKSTEP_TRACE): ranges that the program names, and the merge of the files of all ranks.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// A part of the program, from the construction of this object to its destruction, on one thread. The trace of the rank
/// shows it under `name`, inside the ranges of the same thread that surround it. Strategy::run and get_next of
/// distributed datasets are such ranges, called "run" and "get_next". A trace has at most 1024 different names; further
/// ones are called "other ranges".
/// Local. Thread-safe. Never throws. If LOCKSTEP_TRACE is not set, the object costs one load; otherwise it takes a
/// mutex twice, and allocates memory for a new name only.
class LOCKSTEP_API TraceRange {
 public:
  explicit TraceRange(std::string_view name) noexcept;
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
  ~TraceRange();

 private:
  std::uint64_t begin_ = 0;  // 0: not in a trace
  std::uint32_t name_ = 0;
};

/// The result of merge_trace.
struct MergedTrace {
  std::string trace_path;    ///< events of all ranks, in the format of Chrome's and Perfetto's trace viewers
  std::string summary_path;  ///< the text `summary`
  std::string summary;
};

/// Merges the files that the ranks of a job have written to `directory` (LOCKSTEP_TRACE), and writes
/// `lockstep-<job>.trace.json` and `lockstep-<job>.summary.txt` to that directory. `job`: the name of the job, as in
/// the names of the files; without it, the job whose files were written last. Files of ranks that ended early, and of
/// ranks that still run, are read up to their end. Local. Thread-safe. Cost: reads all files into memory, 56 bytes per
/// operation and rank. Throws Error(invalid_argument) if there are no files of the job, Error(data_loss) if a file is
/// damaged, and Error(unavailable) if a file cannot be read or written.
LOCKSTEP_API MergedTrace merge_trace(const std::string& directory, const std::optional<std::string>& job = {});

}  // namespace lockstep
