// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The files that describe the operations of this process: metrics, trace and hash log.

#pragma once

#include "cluster/hash_log.hpp"
#include "cluster/reporter.hpp"
#include "cluster/settings.hpp"

#include <memory>

namespace lockstep::detail {

/// The files of a process, which the Environments, and the communicators without one, share.
class OperationFiles {
 public:
  /// The files that LOCKSTEP_METRICS, LOCKSTEP_TRACE and LOCKSTEP_HASH_LOG name; they are closed when the last user
  /// releases them. Opens them if this process has not. Null if no variable is set. `rank` and `size` are those of the
  /// job. Throws Error(invalid_argument) if a file cannot be written. Thread-safe.
  [[nodiscard]] static std::shared_ptr<OperationFiles> of_this_process(const Settings& settings, int rank, int size);
  /// Keeps `files`, which may be null, open until MPI_Finalize. MPI is active. Thread-safe.
  static void keep_until_finalize(std::shared_ptr<OperationFiles> files);

  OperationFiles(const Settings& settings, int rank, int size);
  OperationFiles(const OperationFiles&) = delete;
  OperationFiles& operator=(const OperationFiles&) = delete;
  ~OperationFiles();

  /// From now on, communicators that are created write to the hash log, and a thread writes metrics and trace. Later
  /// calls do nothing. Throws Error(unavailable) if the thread cannot be started. Thread-safe.
  void start();

 private:
  std::unique_ptr<Reporter> reporter_;  // null if there are no metrics and no trace
  std::shared_ptr<HashLog> hash_log_;   // null if there is no hash log
  Mutex mutex_;
  bool has_started_ LOCKSTEP_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::detail
