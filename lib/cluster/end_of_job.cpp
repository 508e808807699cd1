// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/end_of_job.hpp"

#include "base/foreign_exception.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "bindings/mpi/mpi.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/base/exit_code.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds grace{2};
constexpr std::chrono::seconds longest_abort{10};

struct Members {
  Mutex mutex;
  std::vector<JobMember*> list LOCKSTEP_GUARDED_BY(mutex);
  bool ends_with_mpi LOCKSTEP_GUARDED_BY(mutex) = false;
  bool has_other_nodes LOCKSTEP_GUARDED_BY(mutex) = false;
};

/// Never destroyed, because threads may use communicators while the process ends.
Members& members() {
  static NeverDestroyed<Members> all;
  return *all;
}

std::atomic<bool> is_aborting{false};
std::atomic<int> terminate_rank{-1};
std::atomic<bool> is_rank_lost{false};
constexpr std::int64_t no_deadline = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> deadline_ms{no_deadline};

// time and exit code of the abort that abort_job_soon has scheduled
std::atomic<Clock::rep> abort_time{0};
std::atomic<int> abort_code{exit_code::failure};

/// In MPI_Finalize of MPICH before 4.2 over UCX and TCP, a rank closes its connections, which needs progress on the
/// other ranks, and then waits for all ranks in a barrier without making progress. If another rank has made this
/// progress in an earlier call of MPI, it cannot close its own connections any more, and the job hangs (pull request
/// 6596 of MPICH). So all ranks pause between their last exchange and MPI_Finalize. A rank that is late by more than
/// the pause, for example because ranks share processors, can still make the job hang.
void pause_before_finalize() {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
#endif
}

int end_members(MPI_Comm, int, void*, void*) {
  Members& all = members();
  const MutexLock lock(all.mutex);
  for (JobMember* const member : all.list) member->on_finalize();
  if (all.has_other_nodes) pause_before_finalize();
  return MPI_SUCCESS;
}

/// Makes MPI_Finalize call `end_members` first.
void end_with_mpi(Members& all) LOCKSTEP_REQUIRES(all.mutex) {
  if (all.ends_with_mpi || !mpi::is_active()) return;
  int key = MPI_KEYVAL_INVALID;
  mpi::check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_members, &key, nullptr), "MPI_Comm_create_keyval");
  mpi::check(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
  mpi::check(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");  // the attribute keeps the key alive
  all.ends_with_mpi = true;
}

[[noreturn]] void wait_for_the_end() noexcept {
  for (;;) pause();
}

[[noreturn]] void abort_when_due() noexcept {
  std::this_thread::sleep_until(Clock::time_point(Clock::duration(abort_time.load())));
  abort_job(abort_code.load());
}

struct AbortReason {
  std::string text;
  int code = exit_code::failure;
  bool is_shared = false;  // every rank throws the same error
  bool is_echo = false;    // another rank has propagated the error, and prints it
};

int code_of(const Error& error) noexcept {
  switch (error.code()) {
    case Code::deadline_exceeded:
    case Code::unavailable: return exit_code::unavailable;
    case Code::data_loss: return exit_code::bad_data;
    default: return error.operation() == environment_operation ? exit_code::usage : exit_code::failure;
  }
}

AbortReason current_abort_reason() noexcept {
  AbortReason reason;
  try {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
    reason.text = "std::terminate was called";
  } catch (const Error& error) {
    reason.text = error.what();
    reason.code = code_of(error);
    reason.is_shared = error.code() == Code::mismatch || error.code() == Code::deadline_exceeded ||
                       error.operation() == environment_operation;
    reason.is_echo = error.code() == Code::unavailable;
  } catch (const std::exception& error) {
    reason.text = error.what();
  } catch (...) {
    reason.text = text_of_foreign_exception();
  }
  return reason;
}

[[noreturn]] void on_terminate() noexcept {
  const AbortReason reason = current_abort_reason();
  if (!reason.is_echo && !reason.is_shared) tell_members(reason.text);
  // another rank prints the text and aborts the job during this sleep; a launcher may need a second or two for an abort
  const bool is_printed_elsewhere = (reason.is_echo && !has_lost_rank()) || terminate_rank.load() != 0;
  if ((reason.is_echo || reason.is_shared) && is_printed_elsewhere) {
    std::this_thread::sleep_for(grace + (has_lost_rank() ? std::chrono::seconds(1) : std::chrono::seconds(5)));
  }
  log_warning("uncaught exception: {}", reason.text);
  std::this_thread::sleep_for(grace);
  abort_job(reason.code);
}

}  // namespace

void join_job(JobMember& member) {
  Members& all = members();
  const MutexLock lock(all.mutex);
  all.list.push_back(&member);
  end_with_mpi(all);
}

void note_other_nodes() {
  Members& all = members();
  const MutexLock lock(all.mutex);
  all.has_other_nodes = true;
  end_with_mpi(all);
}

void leave_job(JobMember& member) noexcept {
  Members& all = members();
  const MutexLock lock(all.mutex);
  std::erase(all.list, &member);
}

void pass_last_barrier() noexcept {
  Members& all = members();
  const MutexLock lock(all.mutex);
  for (JobMember* const member : all.list) member->on_last_barrier();
}

void report_unresponsive_rank(std::chrono::milliseconds deadline) noexcept {
  std::int64_t known = deadline_ms.load();
  while (deadline.count() < known && !deadline_ms.compare_exchange_weak(known, deadline.count())) {}
}

void report_lost_rank() noexcept { is_rank_lost = true; }
bool has_lost_rank() noexcept { return is_rank_lost; }

std::optional<std::chrono::milliseconds> shortest_deadline() noexcept {
  const std::int64_t known = deadline_ms.load();
  return known == no_deadline ? std::nullopt : std::optional(std::chrono::milliseconds(known));
}

void tell_members(const std::string& text) noexcept {
  Members& all = members();
  const auto until = Clock::now() + std::chrono::seconds(1);
  while (!all.mutex.try_lock()) {
    if (Clock::now() > until) return;
    std::this_thread::yield();
  }
  for (JobMember* const member : all.list) member->on_abort(text);
  all.mutex.unlock();
}

void abort_job(int code) noexcept {
  if (is_aborting.exchange(true)) wait_for_the_end();
  try {
    std::thread([code] {
      std::this_thread::sleep_for(longest_abort);
      std::_Exit(code);
    }).detach();
  } catch (...) {  // the thread could not be started, so MPI_Abort has no time limit
  }
  if (mpi::is_active()) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

void abort_job_soon(int code) noexcept {
  abort_time.store((Clock::now() + grace).time_since_epoch().count());
  abort_code.store(code);
  try {
    std::atexit([] { abort_when_due(); });
    std::thread(abort_when_due).detach();
  } catch (...) {
    abort_when_due();
  }
}

AbortTimer::AbortTimer(std::chrono::milliseconds time, std::string text)
    : thread_([this, end = Clock::now() + time, text = std::move(text)] { run(end, text); }) {}

AbortTimer::~AbortTimer() {
  {
    const MutexLock lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
}

void AbortTimer::run(Clock::time_point end, const std::string& text) {
  MutexLock lock(mutex_);
  while (!is_over_) {
    if (lock.wait_until(over_, end) || is_over_) continue;
    log_warning("{}; aborting the job with exit code {}", text, exit_code::unavailable);
    abort_job(exit_code::unavailable);
  }
}

void install_terminate_handler(int rank) noexcept {
  terminate_rank.store(rank);
  std::set_terminate(on_terminate);
}

}  // namespace lockstep::detail
