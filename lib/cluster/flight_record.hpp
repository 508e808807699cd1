// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The flight record of this process: one file with the last operations of all its communicators. This module knows no
// communicators: each recorder registers here while it exists.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

struct RecordedOperation {
  std::uint64_t epoch = 0;
  std::int64_t sequence = -1;  ///< in the epoch; of a message: among those from one rank to another
  std::string call;            ///< the call in words, as in errors, without its place
  std::string_view kind;
  std::string_view op;        ///< empty if the call does not reduce
  std::string_view dtype;     ///< of the first tensor
  std::int64_t elements = 0;  ///< of all tensors of one replica
  std::string name;           ///< given by the caller
  std::string file;
  std::uint32_t line = 0;   ///< 0: unknown
  int peer = -1;            ///< the other rank of a message; -1: not a message
  std::string_view state;   ///< "posted", "agreed", "completed", "failed"
  std::string_view result;  ///< code of the error; empty if there is none
  // microseconds since 1970
  std::int64_t posted = 0;
  std::optional<std::int64_t> agreed;
  std::optional<std::int64_t> finished;
};

struct RecordedFailure {
  std::uint64_t epoch = 0;
  std::int64_t sequence = -1;
  std::string text;
};

/// The record of one rank of a communicator.
struct CommunicatorRecord {
  std::string name;
  std::string_view transport;
  std::uint64_t number = 0;    ///< with `job_ranks`, the same on all ranks of the communicator and on no others
  std::vector<int> job_ranks;  ///< by rank; empty if the ranks are threads of this process
  int rank = 0;
  int size = 1;
  std::uint64_t posted = 0;                   ///< operations in all, of which the last are listed
  std::vector<RecordedOperation> operations;  ///< in the order of the calls
  std::vector<RecordedFailure> failures;      ///< the first one and the last ones
};

class RecordSource {
 public:
  RecordSource() = default;
  RecordSource(const RecordSource&) = delete;
  RecordSource& operator=(const RecordSource&) = delete;
  /// From any thread, at any time: takes no lock that an operation holds.
  [[nodiscard]] virtual CommunicatorRecord read() const = 0;

 protected:
  virtual ~RecordSource() = default;
};

// All functions are thread-safe.

/// `directory` is that of LOCKSTEP_RECORDER, or empty.
void add_record_source(const RecordSource& source, const std::string& directory);
void remove_record_source(const RecordSource& source) noexcept;

/// The rank of this process and the number of ranks of the job; without it, those of the communicators over MPI.
void set_record_rank(int rank, int size) noexcept;

/// Writes the record because of a failure, on a thread of its own; waits for the end of the write, at most 1 s. The
/// first calls of a process write; the others do nothing.
void write_record_after_failure(const std::string& reason) noexcept;

/// The number of calls of write_record_after_failure that write.
inline constexpr int most_records_after_failures = 16;

/// Writes the record to `path`, or to the default file if it is empty, and returns the path.
/// Throws Error(unavailable) if it cannot be written.
std::string write_record(const std::string& path, std::string_view reason);

}  // namespace lockstep::detail
