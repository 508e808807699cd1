// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/abort.hpp"

#include <lockstep/base/error.hpp>

#include "base/log.hpp"
#include "bindings/mpi/mpi.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds grace{2};
std::atomic<int> terminate_rank{-1};
std::atomic<Clock::rep> abort_time{0};

[[noreturn]] void abort_job() noexcept {
  if (mpi::is_active()) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

[[noreturn]] void abort_when_due() noexcept {
  std::this_thread::sleep_until(Clock::time_point(Clock::duration(abort_time.load())));
  abort_job();
}

struct AbortReason {
  std::string text = "an unknown exception";
  bool is_shared = false;  // every rank throws the same error
  bool is_echo = false;    // the error was propagated by another rank, which prints it
};

AbortReason current_abort_reason() noexcept {
  AbortReason reason;
  try {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
    reason.text = "std::terminate was called";
  } catch (const Error& error) {
    reason.text = error.what();
    reason.is_shared = error.code() == Code::mismatch || error.code() == Code::deadline_exceeded ||
                       error.operation() == environment_operation;
    reason.is_echo = error.code() == Code::unavailable;
  } catch (const std::exception& error) {
    reason.text = error.what();
  } catch (...) {}
  return reason;
}

[[noreturn]] void on_terminate() noexcept {
  const AbortReason reason = current_abort_reason();
  // the rank that prints the text aborts the job in the meantime; a launcher may need a second or two for that
  if (reason.is_echo || (reason.is_shared && terminate_rank.load() != 0)) {
    std::this_thread::sleep_for(grace + std::chrono::seconds(5));
  }
  log_warning("uncaught exception: {}", reason.text);
  std::this_thread::sleep_for(grace);
  abort_job();
}

}  // namespace

void install_terminate_handler(int rank) noexcept {
  terminate_rank.store(rank);
  std::set_terminate(on_terminate);
}

void abort_job_soon() noexcept {
  abort_time.store((Clock::now() + grace).time_since_epoch().count());
  try {
    std::atexit([] { abort_when_due(); });
    std::thread(abort_when_due).detach();
  } catch (...) {
    abort_when_due();
  }
}

}  // namespace lockstep::detail
