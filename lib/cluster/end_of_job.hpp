// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of the job, as seen by this process. If the job is aborted, only one thread aborts it, after the other ranks
// have received the reason. If MPI is finalized, all communicators that still exist are closed first.

#pragma once

#include "base/mutex.hpp"

#include <chrono>
#include <condition_variable>
#include <optional>
#include <string>
#include <thread>

namespace lockstep::detail {

/// An object, such as a communicator, that must notify other ranks when the job ends.
class JobMember {
 public:
  JobMember() = default;
  JobMember(const JobMember&) = delete;
  JobMember& operator=(const JobMember&) = delete;
  virtual ~JobMember() = default;

  /// Called before this process aborts the job: sends `text` to the other ranks. Must return within a bounded time.
  virtual void on_abort(const std::string& text) noexcept = 0;
  /// Called when all ranks are destroying their Environment and have sent their last messages. The communicator of the
  /// Job still exists. Must return within a bounded time.
  virtual void on_last_barrier() noexcept {}
  /// Called before MPI is finalized; MPI calls are still allowed. Must return within a bounded time.
  virtual void on_finalize() noexcept = 0;
};

/// Adds a member. The first call after the initialization of MPI attaches an attribute to MPI_COMM_SELF. MPI_Finalize
/// first deletes this attribute, which calls `on_finalize` of all members. Thread-safe.
void join_job(JobMember& member);
/// Removes a member. Waits while a function of this member is being called. Thread-safe.
void leave_job(JobMember& member) noexcept;
/// Records that the job has ranks on other nodes. With MPICH before 4.2, this process then pauses before MPI_Finalize.
/// Attaches the attribute, like join_job. Thread-safe.
void note_other_nodes();
/// Calls `on_last_barrier` of all members.
void pass_last_barrier() noexcept;

/// Reports that a rank did not respond within `deadline`. The end of the job then waits for other ranks no longer than
/// `deadline` or 5 s, whichever is longer. Thread-safe.
void report_unresponsive_rank(std::chrono::milliseconds deadline) noexcept;
/// Reports that a rank is lost. Thread-safe.
void report_lost_rank() noexcept;
[[nodiscard]] bool has_lost_rank() noexcept;
/// The shortest deadline that was passed to report_unresponsive_rank; nullopt if there was none.
[[nodiscard]] std::optional<std::chrono::milliseconds> shortest_deadline() noexcept;

/// Calls `on_abort(text)` of all members.
void tell_members(const std::string& text) noexcept;
/// Aborts the job with the exit code `code`: calls MPI_Abort if MPI is active, then exits. If MPI_Abort does not return
/// within 10 s, this process exits. Only the first thread that calls this function aborts the job; other threads wait
/// for the end.
[[noreturn]] void abort_job(int code) noexcept;
/// Schedules a call of abort_job in 2 s and returns at once. If the program exits earlier, its exit waits for this
/// call.
void abort_job_soon(int code) noexcept;
/// If this object is not destroyed within `time`, logs `text` and aborts the job with exit_code::unavailable.
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
  std::jthread thread_;  // the last member, because it uses the other members
};
/// Installs a terminate handler. For an uncaught exception, the handler prints the text, sends the text to the other
/// ranks, and aborts the job 2 s later, so that the other ranks can print their errors. If an error is the same on
/// every rank, rank 0 prints it; another rank prints it only if rank 0 has not aborted the job in time.
void install_terminate_handler(int rank) noexcept;

/// Operation name in the errors that Environment throws. Every rank throws the same error.
inline constexpr const char* environment_operation = "Environment";

}  // namespace lockstep::detail
