// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Flight records, as lockstep writes them: one file for each process of a job.

#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace explain {

/// A file or folder that cannot be used. The text names it, and the place in it.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Operation {
  std::uint64_t epoch = 0;
  std::int64_t sequence = -1;
  std::string call;   ///< in words, without its place
  std::string place;  ///< "file:line"; empty: unknown
  std::string kind;
  int peer = -1;            ///< other rank of a message; -1: a collective
  std::string state;        ///< "posted", "agreed", "completed" or "failed"
  std::int64_t posted = 0;  ///< microseconds since 1970

  [[nodiscard]] bool is_collective() const { return peer < 0; }
  [[nodiscard]] bool is_completed() const { return state == "completed"; }
  /// "all_reduce sum of f32 [4] at app/train.cpp:12"
  [[nodiscard]] std::string text() const { return place.empty() ? call : call + " at " + place; }
};

struct Failure {
  std::uint64_t epoch = 0;
  std::int64_t sequence = -1;
  std::string text;
};

/// One rank's record of a communicator.
struct Communicator {
  std::string name;
  std::string transport;
  std::uint64_t number = 0;
  std::vector<int> job_ranks;  ///< by rank; empty: the ranks are threads of the process
  int rank = 0;
  int size = 1;
  std::uint64_t posted = 0;  ///< operations in all; the last ones are listed
  std::vector<Operation> operations;
  std::vector<Failure> failures;
};

struct Record {
  std::string path;
  std::string job;
  int rank = -1;  ///< of the job; -1: unknown
  int size = 0;   ///< ranks of the job; 0: unknown
  std::string host;
  std::string reason;
  std::int64_t written = 0;  ///< microseconds since 1970
  std::vector<Communicator> communicators;
};

/// Reads one file. Its texts are escaped for a terminal. Throws InputError, which names the file, the place and the
/// rule.
[[nodiscard]] Record read_record(const std::string& path);

/// The paths of the records in `path`, sorted: itself if it is a file, or the regular files lockstep-*.json of a
/// folder. Throws InputError if there are none.
[[nodiscard]] std::vector<std::string> find_records(const std::string& path);

/// The records of one run of a job: of `job`, or, without it, of the one that was written last. Of several files of one
/// rank the newest is kept. "all" keeps all, for jobs whose hosts have different names for it.
struct Selection {
  std::vector<Record> records;      ///< by rank
  std::vector<std::string> others;  ///< names of the other runs, the newest first
};
/// Throws InputError if `job` has no record.
[[nodiscard]] Selection select_job(std::vector<Record> records, const std::optional<std::string>& job);

}  // namespace explain
