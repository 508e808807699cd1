// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/preemption_guard.hpp>

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/signals.hpp"
#include "base/start_thread.hpp"
#include "checkpoint/agreement.hpp"

#include <lockstep/context/context.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

// A signal handler gets only the number of the signal, so the flags that the handler sets are global variables.
constinit std::atomic<bool> got_signal{false};
constinit std::atomic<bool> got_interrupt{false};
constinit std::atomic<bool> is_guarded{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may use lock-free atomics only");

/// Async-signal-safe. Runs as the signal handler on threads that do not block the signals, and is also called directly.
extern "C" void note_signal(int signal) {
  got_signal.store(true, std::memory_order_relaxed);
  if (signal != SIGINT || !got_interrupt.exchange(true, std::memory_order_relaxed)) return;
  // the second ctrl-C ends the process at once, as it does without a guard
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGINT, &standard, nullptr);
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ::pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  ::raise(SIGINT);
}

/// The signals to handle if `options.signals` is empty. SIGINT is not one of them if it is ignored: a shell makes
/// background jobs ignore SIGINT.
std::vector<int> default_signals() {
  struct sigaction interrupt{};
  ::sigaction(SIGINT, nullptr, &interrupt);
  if (interrupt.sa_handler == SIG_IGN) return {SIGTERM, SIGUSR1};
  return {SIGTERM, SIGUSR1, SIGINT};
}

}  // namespace

/// Keeps the former signal dispositions and mask, and runs the thread that waits for the signals.
class PreemptionGuard::Handlers {
 public:
  explicit Handlers(const std::vector<int>& signals) {
    ::sigemptyset(&watched_);
    for (const int signal : signals) ::sigaddset(&watched_, signal);
    ::pthread_sigmask(SIG_BLOCK, &watched_, &former_mask_);
    try {
      for (const int signal : signals) install(signal);
      thread_ =
          detail::start_thread({"PreemptionGuard: the thread that takes the signals", "create no PreemptionGuard"},
                               [this] { take_signals(); });
    } catch (...) {
      restore();
      throw;
    }
    static const int registered = ::pthread_atfork(nullptr, nullptr, restore_in_child);
    static_cast<void>(registered);
    current_.store(this);
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;
  ~Handlers() {
    if (detail::fork_depth() != fork_depth_) {  // a forked child: the thread exists only in the parent
      [[maybe_unused]] const auto* const of_the_parent = new std::thread(std::move(thread_));
      return;
    }
    current_.store(nullptr);
    stopping_.store(true);
    ::pthread_kill(thread_.native_handle(), former_.front().first);
    thread_.join();
    restore();
  }

  /// Records the signals that are pending for the calling thread or for the process.
  void take_pending() noexcept {
    const timespec at_once{};
    for (int signal = 0; (signal = ::sigtimedwait(&watched_, nullptr, &at_once)) > 0;) note_signal(signal);
  }
  /// Makes the destructor ignore later signals, except SIGINT. The job is ending, and some ranks get the signal only
  /// after their guard is destroyed.
  void ignore_later_signals() noexcept {
    for (auto& [signal, action] : former_) {
      if (signal == SIGINT) continue;
      action = {};
      action.sa_handler = SIG_IGN;
    }
  }

 private:
  void install(int signal) {
    const sigset_t possible = detail::outside_signals();
    struct sigaction action{};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART | SA_ONSTACK;  // interrupted system calls are restarted
    ::sigemptyset(&action.sa_mask);
    struct sigaction before{};
    if (::sigismember(&possible, signal) != 1 || ::sigaction(signal, &action, &before) != 0) {
      detail::throw_error(
          Code::invalid_argument,
          "PreemptionGuard: signal {} of signals cannot be handled by a program; use another one, such as SIGTERM",
          signal);
    }
    former_.emplace_back(signal, before);
  }

  void take_signals() noexcept {
    while (true) {
      const int signal = ::sigwaitinfo(&watched_, nullptr);
      if (stopping_.load()) return;  // the signal came from the destructor
      if (signal > 0) note_signal(signal);
    }
  }

  /// Async-signal-safe, because a child process calls it after fork().
  void restore() noexcept {
    for (auto each = former_.rbegin(); each != former_.rend(); ++each) ::sigaction(each->first, &each->second, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
  }
  static void restore_in_child() {
    if (Handlers* const handlers = current_.load()) handlers->restore();
  }

  static constinit std::atomic<Handlers*> current_;
  const std::uint32_t fork_depth_ = detail::fork_depth();
  std::vector<std::pair<int, struct sigaction>> former_;
  sigset_t watched_{};
  sigset_t former_mask_{};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

constinit std::atomic<PreemptionGuard::Handlers*> PreemptionGuard::Handlers::current_{nullptr};

PreemptionGuard::PreemptionGuard(Strategy& strategy, const PreemptionOptions& options)
    : communicator_(strategy.communicator()), check_every_(options.check_every) {
  if (check_every_ < 1) {
    detail::throw_error(Code::invalid_argument, "PreemptionGuard: check_every is {}; it must be at least 1",
                        check_every_);
  }
  if (is_guarded.exchange(true)) {
    detail::throw_error(Code::failed_precondition,
                        "PreemptionGuard: another PreemptionGuard exists in this process; only one may exist, because "
                        "signals belong to the process");
  }
  got_signal.store(false);
  got_interrupt.store(false);
  try {
    handlers_ = std::make_unique<Handlers>(options.signals.empty() ? default_signals() : options.signals);
  } catch (...) {
    is_guarded.store(false);
    throw;
  }
}

PreemptionGuard::~PreemptionGuard() {
  if (stopping_) handlers_->ignore_later_signals();
  handlers_.reset();
  is_guarded.store(false);
}

bool PreemptionGuard::has_signal() const noexcept {
  handlers_->take_pending();
  return got_signal.load(std::memory_order_relaxed);
}

bool PreemptionGuard::should_stop() {
  if (has_strategy() && !in_cross_replica_context()) {
    detail::throw_error(Code::failed_precondition,
                        "should_stop: called in replica context; call it outside of the step function, between steps");
  }
  if (stopping_ || calls_++ % check_every_ != 0) return stopping_;
  std::vector<std::uint32_t> signals{has_signal() ? 1u : 0u};
  detail::add_over_ranks(communicator_, signals);
  stopping_ = signals.front() != 0;
  return stopping_;
}

}  // namespace lockstep
