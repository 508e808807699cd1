// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The flight record of this process: one file with the last operations of all its communicators. This module does not
// depend on communicators: each recorder registers itself here.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

// The views of a record refer to literals.

struct RecordedOperation {
  std::uint64_t epoch = 0;
  std::int64_t sequence = -1;  ///< number in the epoch; messages are numbered per sender and receiver
  std::string call;            ///< text of the call, as in errors, without file and line
  std::string_view kind;
  std::string_view op;        ///< empty if the call is not a reduction
  std::string_view dtype;     ///< dtype of the first tensor
  std::int64_t elements = 0;  ///< number of elements of all tensors of one replica
  std::string name;           ///< name given by the caller
  std::string file;
  std::uint32_t line = 0;   ///< 0: unknown
  int peer = -1;            ///< the other rank of a message; -1: not a message
  std::string_view state;   ///< "posted", "agreed", "completed", "failed"
  std::string_view result;  ///< code of the error; empty if there is no error
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
  std::uint64_t number = 0;    ///< identifies the communicator, together with `job_ranks`
  std::vector<int> job_ranks;  ///< job rank of each rank; empty if the ranks are threads of this process
  int rank = 0;
  int size = 1;
  std::uint64_t posted = 0;                   ///< number of all operations so far
  std::vector<RecordedOperation> operations;  ///< the last operations, in the order of the calls
  std::vector<RecordedFailure> failures;      ///< the first failure and the last failures
};

class RecordSource {
 public:
  RecordSource() = default;
  RecordSource(const RecordSource&) = delete;
  RecordSource& operator=(const RecordSource&) = delete;
  /// May be called by any thread at any time: takes no lock that an operation holds.
  [[nodiscard]] virtual CommunicatorRecord read() const = 0;

 protected:
  virtual ~RecordSource() = default;
};

// All functions are thread-safe.

/// Registers `source`. `directory` is the directory of LOCKSTEP_RECORDER, or empty.
void add_record_source(const RecordSource& source, const std::string& directory);
void remove_record_source(const RecordSource& source) noexcept;

/// Sets the rank of this process and the number of ranks of the job. Without this call, both are taken from the
/// communicators over MPI.
void set_record_rank(int rank, int size) noexcept;

/// Makes `directory`, the directory of LOCKSTEP_RECORDER, if it does not exist. Logs a warning if files cannot be
/// written there.
void prepare_record_directory(const std::string& directory);

/// Writes the record because of a failure, on a new thread. Waits at most 1 s for the end of the write. Only the first
/// most_records_after_failures calls of a process write a record; later calls do nothing.
void write_record_after_failure(const std::string& reason) noexcept;

/// Maximum number of records that write_record_after_failure writes.
inline constexpr int most_records_after_failures = 16;

/// Writes the record to `path`, or to the default file if `path` is empty, and returns the path. Throws
/// Error(unavailable) if the file cannot be written.
std::string write_record(const std::string& path, std::string_view reason);

}  // namespace lockstep::detail
