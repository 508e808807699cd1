// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The thread that writes the metrics and the trace of this process. It exists only if LOCKSTEP_METRICS or
// LOCKSTEP_TRACE is set.

#pragma once

#include "base/mutex.hpp"
#include "cluster/metrics.hpp"
#include "cluster/settings.hpp"
#include "cluster/trace_writer.hpp"

#include <condition_variable>
#include <cstdint>
#include <optional>
#include <thread>

namespace lockstep::detail {

class Reporter {
 public:
  /// Opens the files that `settings` name, and makes communicators measure their operations from now on. Throws
  /// Error(invalid_argument) if a file cannot be written.
  Reporter(const Settings& settings, int rank, int size);
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  /// Writes the rest. Does nothing in a forked child.
  ~Reporter();
  /// Starts the thread. Called once, when no error can follow that another rank does not know of.
  void start();

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void write_metrics() noexcept;
  void write_trace() noexcept;

  const std::uint32_t fork_depth_;  // fork_depth() of the process that created this object
  // used by the thread, then by the destructor
  std::optional<MetricsFile> metrics_;
  std::optional<TraceWriter> trace_;

  Mutex mutex_;
  bool is_over_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::condition_variable over_;
  std::thread thread_;
};

}  // namespace lockstep::detail
