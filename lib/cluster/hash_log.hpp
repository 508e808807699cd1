// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The hash log of this process (LOCKSTEP_HASH_LOG): a file of JSON lines with a hash of each input and output of each
// operation, which lockstep-diff reads. This module does not depend on communicators.

#pragma once

#include "base/mutex.hpp"
#include "base/output_file.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// The communicator of an operation, as this rank sees it.
struct HashedGroup {
  std::string name;
  std::uint64_t number = 0;    ///< as GroupIdentity::number
  std::vector<int> job_ranks;  ///< job rank of each rank; empty if the ranks are threads of this process
  int rank = 0;
  std::vector<int> replicas;  ///< number of replicas of each rank
};

/// The description of a call, which many operations share.
struct HashedCall {
  /// The tensors of one item on this rank, as texts such as "f32 [2, 3]".
  struct Item {
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
  };
  std::string kind;
  std::string op;  ///< empty: no reduction
  std::string name;
  std::string text;  ///< text of the call, as in errors, without file and line
  std::string file;  ///< empty: unknown
  std::uint32_t line = 0;
  int root = -1;
  std::string inputs_of;  ///< the ranks or replicas that have inputs: "none", "root", "ranks" or "replicas"
  std::string outputs_of;
  std::vector<Item> items;
};

/// One operation that has ended. Hashes are in the order of the items; no value: the tensor could not be read.
struct HashedOperation {
  using Hashes = std::vector<std::optional<std::uint64_t>>;
  std::uint64_t epoch = 0;
  std::int64_t sequence = -1;
  std::uint64_t call = 0;  ///< as HashLog::number_of
  Hashes inputs;
  Hashes outputs;            ///< empty if the operation failed
  std::string_view failure;  ///< code of the error; empty: success
};

/// Writes each line at once, so a process that is killed loses no line. If a line cannot be written, logs a warning and
/// writes nothing more. Thread-safe. In a forked child, the functions write nothing.
class HashLog {
 public:
  /// Opens the file of `rank` in `directory`, which is created if it does not exist. Throws Error(invalid_argument) if
  /// the file cannot be written.
  HashLog(const std::string& directory, int rank, int size);
  HashLog(const HashLog&) = delete;
  HashLog& operator=(const HashLog&) = delete;

  /// Describes a communicator. Returns its number in the file, from 1.
  [[nodiscard]] std::uint64_t number_of(const HashedGroup& group);
  /// Describes a call, unless the file has an equal description. Returns the number of the description, from 1.
  [[nodiscard]] std::uint64_t number_of(const HashedCall& call);
  /// Writes the operation, which belongs to communicator `group`.
  void add(std::uint64_t group, const HashedOperation& operation);

 private:
  void write(std::string line) LOCKSTEP_REQUIRES(mutex_);

  const std::uint32_t fork_depth_;  // fork_depth() of the process that created this object
  const std::string path_;
  Mutex mutex_;
  OutputFile file_ LOCKSTEP_GUARDED_BY(mutex_);  // not open: a write has failed
  std::uint64_t groups_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::uint64_t> calls_ LOCKSTEP_GUARDED_BY(mutex_);  // number by description
};

/// The log that communicators use which are created from now on; null: none. Thread-safe.
void set_hash_log(std::shared_ptr<HashLog> log);
[[nodiscard]] std::shared_ptr<HashLog> hash_log_of_this_process();

}  // namespace lockstep::detail
