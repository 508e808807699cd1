// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/quit_signal.hpp"

#include "base/fork.hpp"
#include "base/log.hpp"
#include "cluster/flight_record.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <system_error>

namespace lockstep::detail {
namespace {

// global, because a signal handler gets only the number of the signal
constinit std::atomic<int> wake_of_process{-1};

constexpr std::uint64_t one_signal = 1;
constexpr std::uint64_t stop_word = std::uint64_t{1} << 32;

extern "C" void wake_on_quit(int) {
  const int error = errno;
  static_cast<void>(!::write(wake_of_process.load(std::memory_order_relaxed), &one_signal, sizeof(one_signal)));
  errno = error;
}

sigset_t quit_alone() noexcept {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGQUIT);
  return set;
}

void write_on_quit() noexcept {
  try {
    log_warning("SIGQUIT: the flight record of this rank is {}", write_record({}, "SIGQUIT"));
  } catch (const std::exception& error) {
    log_warning("SIGQUIT: {}", error.what());
  }
}

void serve(int wake) noexcept {
  sigset_t others;
  ::sigfillset(&others);
  ::sigdelset(&others, SIGQUIT);
  ::pthread_sigmask(SIG_SETMASK, &others, nullptr);
  for (;;) {
    std::uint64_t words = 0;
    const ssize_t got = ::read(wake, &words, sizeof(words));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || words >= stop_word) return;
    write_on_quit();
  }
}

}  // namespace

QuitSignal::QuitSignal() noexcept : fork_depth_(fork_depth()) {
  if (::sigaction(SIGQUIT, nullptr, &former_) != 0 || former_.sa_handler != SIG_DFL) return;
  const sigset_t quit = quit_alone();
  sigset_t before;
  if (::pthread_sigmask(SIG_BLOCK, &quit, &before) != 0) return;
  if (::sigismember(&before, SIGQUIT) == 0) is_blocked_ = true;
}

QuitSignal::~QuitSignal() {
  if (fork_depth() != fork_depth_) {
    if (thread_.joinable()) thread_.detach();  // the thread exists only in the parent
    return;
  }
  stop();
}

void QuitSignal::start() noexcept {
  if (!is_blocked_) return;
  try {
    wake_ = ::eventfd(0, EFD_CLOEXEC);
    if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    wake_of_process.store(wake_);
    struct sigaction action{};
    action.sa_handler = wake_on_quit;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGQUIT, &action, nullptr);
    thread_ = std::thread(serve, wake_);
  } catch (const std::exception& error) {
    log_warning("SIGQUIT does not write the flight record: {}", error.what());
    stop();
  }
}

void QuitSignal::stop_thread() noexcept {
  if (wake_ < 0) return;
  struct sigaction present{};
  // after start(), the program may have installed its own handler
  if (::sigaction(SIGQUIT, nullptr, &present) == 0 && present.sa_handler == wake_on_quit)
    ::sigaction(SIGQUIT, &former_, nullptr);
  if (thread_.joinable()) {
    static_cast<void>(!::write(wake_, &stop_word, sizeof(stop_word)));
    thread_.join();
  }
  wake_of_process.store(-1);
  ::close(wake_);
  wake_ = -1;
}

void QuitSignal::stop() noexcept {
  stop_thread();
  if (!is_blocked_) return;
  is_blocked_ = false;
  const sigset_t quit = quit_alone();
  ::pthread_sigmask(SIG_UNBLOCK, &quit, nullptr);
}

}  // namespace lockstep::detail
