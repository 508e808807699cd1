// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/preemption_guard.hpp>

#include "base/check.hpp"
#include "checkpoint/agreement.hpp"

#include <lockstep/context/context.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <utility>

namespace lockstep {
namespace {

// A handler gets only the signal's number, so its flag is a global of the process.
constinit std::atomic<bool> got_signal{false};
constinit std::atomic<bool> is_guarded{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may use lock-free atomics only");

extern "C" void note_signal(int) { got_signal.store(true, std::memory_order_relaxed); }

}  // namespace

struct PreemptionGuard::Handlers {
  std::vector<std::pair<int, struct sigaction>> former;

  ~Handlers() {
    for (const auto& [signal, action] : former) ::sigaction(signal, &action, nullptr);
    is_guarded.store(false);
  }
  void install(int signal) {
    struct sigaction action{};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;  // interrupted system calls are restarted
    ::sigemptyset(&action.sa_mask);
    struct sigaction before{};
    if (::sigaction(signal, &action, &before) != 0) {
      detail::throw_error(Code::invalid_argument, "PreemptionGuard: signal {} cannot be handled; use another one",
                          signal);
    }
    former.emplace_back(signal, before);
  }
};

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
  handlers_ = std::make_unique<Handlers>();
  got_signal.store(false);
  if (options.signals.empty()) {
    handlers_->install(SIGTERM);
    handlers_->install(SIGUSR1);
  }
  for (const int signal : options.signals) handlers_->install(signal);
}

PreemptionGuard::~PreemptionGuard() = default;

bool PreemptionGuard::has_signal() const noexcept { return got_signal.load(std::memory_order_relaxed); }

bool PreemptionGuard::should_stop() {
  if (has_strategy() && !in_cross_replica_context()) {
    detail::throw_error(Code::failed_precondition,
                        "should_stop: called in replica context; call it in cross-replica context, between steps");
  }
  if (stopping_ || calls_++ % check_every_ != 0) return stopping_;
  std::vector<std::uint32_t> signals{has_signal() ? 1u : 0u};
  detail::add_over_ranks(communicator_, signals);
  stopping_ = signals.front() != 0;
  return stopping_;
}

}  // namespace lockstep
