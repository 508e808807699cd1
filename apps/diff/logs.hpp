// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Hash logs, as lockstep writes them (LOCKSTEP_HASH_LOG): one file of JSON lines for each process of a job.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace diff {

/// Files that cannot be used or compared. The text names the file and the line.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The ranks or replicas that have the inputs, or the outputs, of a call.
enum class Owners { none, root, ranks, replicas };

/// One item of a call on one rank: its tensors as texts, such as "f32 [2, 3]", and where their hashes begin in an
/// operation.
struct Item {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::size_t first_input = 0;
  std::size_t first_output = 0;
};

struct Call {
  std::string kind;
  std::string op;
  std::string name;
  std::string text;   ///< in words, without its place
  std::string place;  ///< "file:line"; empty: unknown
  int root = -1;
  Owners inputs_of = Owners::none;
  Owners outputs_of = Owners::none;
  std::vector<Item> items;

  /// "all_reduce sum of f32 [4] at app/train.cpp:12"
  [[nodiscard]] std::string full_text() const { return place.empty() ? text : text + " at " + place; }
};

/// An operation that has succeeded.
struct Operation {
  std::int64_t sequence = -1;
  std::size_t call = 0;              ///< index in Log::calls
  std::vector<std::string> inputs;   ///< hashes; empty text: unknown
  std::vector<std::string> outputs;  ///< as `inputs`
  std::size_t line = 0;              ///< in the file
};

/// One rank's operations of a communicator.
struct Communicator {
  std::string name;
  std::uint64_t number = 0;
  std::vector<int> job_ranks;  ///< by rank; empty: the ranks are threads of the process
  int rank = 0;
  std::vector<int> replicas;  ///< number of replicas of each rank
  std::vector<Operation> operations;
  std::size_t failed = 0;  ///< number of operations that failed
};

struct Log {
  std::string path;
  std::string job;
  int rank = 0;
  int size = 1;
  std::vector<Call> calls;
  std::vector<Communicator> communicators;
};

/// The logs of one run of a job, by rank.
struct Run {
  std::string path;
  std::vector<Log> logs;

  [[nodiscard]] const std::string& job() const { return logs.front().job; }
  [[nodiscard]] int size() const { return logs.front().size; }
};

/// Reads one file. Throws InputError.
[[nodiscard]] Log read_log(const std::string& path);

/// Reads the logs of all ranks. `path` is a directory with the files of one job, or "DIRECTORY/lockstep-JOB". Throws
/// InputError if there are no files, if there are files of several jobs, or if the file of a rank is missing.
[[nodiscard]] Run read_run(const std::string& path);

}  // namespace diff
