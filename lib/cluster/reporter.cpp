// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/reporter.hpp"

#include "base/fork.hpp"
#include "base/log.hpp"
#include "base/start_thread.hpp"
#include "cluster/trace_ranges.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

namespace lockstep::detail {
namespace {

constexpr std::chrono::milliseconds metrics_interval{1000};
/// In this time, few programs have more operations than OperationMeter::ring_size.
constexpr std::chrono::milliseconds trace_interval{20};

}  // namespace

Reporter::Reporter(const Settings& settings, int rank, int size) : fork_depth_(fork_depth()) {
  if (!settings.metrics_file.empty()) metrics_.emplace(settings.metrics_file, rank, size);
  if (!settings.trace_directory.empty()) trace_.emplace(settings.trace_directory, rank, size);
  set_metering({.totals = metrics_.has_value(), .operations = trace_.has_value()});
  keep_reported_values(metrics_.has_value());
  keep_trace_ranges(trace_.has_value());
}

Reporter::~Reporter() {
  if (fork_depth() != fork_depth_) {
    if (thread_.joinable()) thread_.detach();  // the thread exists only in the parent
    return;
  }
  if (thread_.joinable()) {
    {
      const MutexLock lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    thread_.join();
  }
  set_metering({});
  keep_reported_values(false);
  keep_trace_ranges(false);
  write_metrics();
  write_trace();
  if (trace_) trace_->end();
}

void Reporter::start() {
  thread_ =
      start_thread({"the thread that writes the metrics and the trace", "unset LOCKSTEP_METRICS and LOCKSTEP_TRACE"},
                   [this] { run(); });
}

void Reporter::run() {
  const Clock::duration interval = trace_ ? trace_interval : metrics_interval;
  Clock::time_point next_metrics = Clock::now() + metrics_interval;
  MutexLock lock(mutex_);
  for (Clock::time_point next = Clock::now() + interval; !is_over_;) {
    if (lock.wait_until(over_, next)) continue;
    lock.unlock();
    write_trace();
    const Clock::time_point now = Clock::now();
    if (now >= next_metrics) {
      write_metrics();
      next_metrics = now + metrics_interval;
    }
    next = now + interval;
    lock.lock();
  }
}

/// After an error, no metrics are written any more.
void Reporter::write_metrics() noexcept {
  if (!metrics_) return;
  try {
    metrics_->write();
    if (std::vector<std::shared_ptr<OperationMeter>> all; !trace_)
      meters_of_this_process(all);  // forgets destroyed ones
  } catch (const std::exception& error) {
    log_warning("LOCKSTEP_METRICS: {}; no further metrics are written", error.what());
    metrics_.reset();
    set_metering({.totals = false, .operations = trace_.has_value()});
    keep_reported_values(false);
  }
}

void Reporter::write_trace() noexcept {
  if (!trace_) return;
  try {
    trace_->write();
  } catch (const std::exception& error) {
    log_warning("LOCKSTEP_TRACE: {}; the trace of this rank ends here", error.what());
    set_metering({.totals = metrics_.has_value(), .operations = false});
    trace_.reset();
  }
}

}  // namespace lockstep::detail
