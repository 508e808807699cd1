// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes the trace file of this rank.

#pragma once

#include "base/output_file.hpp"
#include "cluster/operation_meter.hpp"
#include "cluster/trace_file.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// Not thread-safe.
class TraceWriter {
 public:
  /// Number of operations and of ranges in a file at most; later ones are counted.
  static constexpr std::uint64_t most_entries = 1'000'000;

  /// Makes `directory` if it does not exist, and the file of this rank. Throws Error(invalid_argument) if the file
  /// cannot be written.
  TraceWriter(const std::string& directory, int rank, int size);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  /// Writes what the meters of this process and the ranges have by now. Throws Error(unavailable) if this fails.
  void write();
  /// Writes the end of the file. Logs a warning if entries were left out.
  void end() noexcept;

 private:
  struct Group {
    std::uint32_t number = 0;
    std::uint64_t dropped = 0;
  };
  void append(TraceRecordType type, std::uint32_t group, std::string_view bytes);
  void append_meter(OperationMeter& meter);
  void append_ranges();
  void append_clock();
  void flush();

  const std::string path_;
  OutputFile file_;
  std::int64_t last_clock_ns_ = 0;
  std::string buffer_;
  std::vector<std::shared_ptr<OperationMeter>>
      meters_;  // used by `write`, which thus allocates no memory again and again
  std::map<const OperationMeter*, Group> groups_;
  std::uint32_t next_group_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t dropped_ = 0;  // entries beyond most_entries, and operations of destroyed communicators
  std::uint64_t dropped_ranges_ = 0;
};

}  // namespace lockstep::detail
