// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of the job, as seen by this process: it is aborted once, by one thread, after the other ranks have got the
// reason; or MPI is finalized, after the communicators that still exist have been closed.

#pragma once

#include "base/mutex.hpp"

#include <chrono>
#include <condition_variable>
#include <optional>
#include <string>
#include <thread>

namespace lockstep::detail {

/// An object that other ranks wait for.
class JobMember {
 public:
  JobMember() = default;
  JobMember(const JobMember&) = delete;
  JobMember& operator=(const JobMember&) = delete;
  virtual ~JobMember() = default;

  /// This process is about to abort the job: the other ranks get `text`. Bounded.
  virtual void on_abort(const std::string& text) noexcept = 0;
  /// All ranks destroy their Environment, and have sent their last messages; the communicator of the Job still exists.
  /// Bounded.
  virtual void on_last_barrier() noexcept {}
  /// MPI is about to be finalized; MPI may still be called. Bounded.
  virtual void on_finalize() noexcept = 0;
};

/// From the first call with MPI initialized on, the end of MPI_COMM_SELF, with which MPI_Finalize begins, ends all
/// members. Thread-safe.
void join_job(JobMember& member);
/// Waits while the member is being called.
void leave_job(JobMember& member) noexcept;
/// Calls `on_last_barrier` of all members.
void pass_last_barrier() noexcept;

/// A rank did not respond within `deadline`: the end of the job waits for it no longer than that. Thread-safe.
void report_unresponsive_rank(std::chrono::milliseconds deadline) noexcept;
/// A rank is known to be gone. Thread-safe.
void report_lost_rank() noexcept;
[[nodiscard]] bool has_lost_rank() noexcept;
/// The shortest of these deadlines.
[[nodiscard]] std::optional<std::chrono::milliseconds> shortest_deadline() noexcept;

/// Calls `on_abort` of all members.
void tell_members(const std::string& text) noexcept;
/// Aborts the job with `code`: by MPI if it is active; else, and if MPI does not return within 10 s, this process
/// exits. The first thread that calls does so; others wait for the end.
[[noreturn]] void abort_job(int code) noexcept;
/// As abort_job in 2 s, also if the program ends earlier. Returns at once.
void abort_job_soon(int code) noexcept;
/// Aborts the job with exit_code::unavailable, after `text` has been logged, if it is not destroyed within `time`.
class AbortTimer {
 public:
  AbortTimer(std::chrono::milliseconds time, std::string text);
  AbortTimer(const AbortTimer&) = delete;
  AbortTimer& operator=(const AbortTimer&) = delete;
  ~AbortTimer();

 private:
  void run(std::chrono::steady_clock::time_point end, const std::string& text);

  Mutex mutex_;
  bool is_over_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::condition_variable over_;
  std::jthread thread_;  // the last member: it uses the others
};
/// Installs a terminate handler that prints the text of an uncaught exception, gives it to the other ranks, and aborts
/// the job 2 s later, so that these can print theirs. An error that is the same on every rank is printed by rank 0
/// only; another rank prints it only if rank 0 does not abort the job first.
void install_terminate_handler(int rank) noexcept;

/// Operation of the errors that Environment itself throws. Every rank throws the same ones.
inline constexpr const char* environment_operation = "Environment";

}  // namespace lockstep::detail
