// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Stops a job in time before its batch system kills it. The batch system sends a signal some time before it kills the
// job. Then all ranks stop at the same step, save a checkpoint, and exit with a code that asks for a restart.

#pragma once

#include <lockstep/base/exit_code.hpp>
#include <lockstep/base/export.hpp>
#include <lockstep/base/owned.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <vector>

namespace lockstep {

class Strategy;

struct PreemptionOptions {
  /// Signals that announce the end of the job. Default: SIGTERM, SIGUSR1 (Slurm: `sbatch --signal=USR1@120`) and SIGINT
  /// (ctrl-C). If the process ignores SIGINT, the default is without SIGINT; shells start background jobs with SIGINT
  /// ignored.
  std::vector<int> signals = {};
  /// Only every check_every-th call of `should_stop` asks the other ranks; at least 1. A larger number costs less, but
  /// the ranks stop later.
  int check_every = 1;
};

/// Handles the signals during its lifetime:
///
///   PreemptionGuard guard(strategy);
///   for (...) {
///     strategy.run(step, ...);
///     if (guard.should_stop()) {
///       checkpoint.save(directory, step);
///       return PreemptionGuard::exit_code;
///     }
///   }
///
/// A thread of the guard receives the signals, so that no signal handler interrupts a thread that computes. For this
/// purpose, the guard blocks the signals on the thread that creates the guard, and the threads that this thread starts
/// later inherit the signal mask. All threads of lockstep also block the signals. If a thread was started before the
/// guard and does not block the signals, it may run the guard's handler, which only sets a flag. This is harmless for
/// MPI's own threads, because they do not compute. If your program has threads that compute, such as OpenMP's, create
/// the guard before these threads.
/// The guard handles the first SIGINT like the other signals. The second SIGINT ends the process at once, as without a
/// guard.
/// While the guard exists, it replaces the program's own handlers of the signals. The destructor restores these
/// handlers, and the signal mask of its thread, with one exception: if `should_stop` has returned true, the destructor
/// makes the process ignore the signals (except SIGINT), because the job is about to exit and the signal of this rank
/// may still arrive. After fork(), the child process has the former handlers and the former mask at once. A child
/// process of posix_spawn, system or popen inherits the guard's mask.
/// Only one guard may exist in a process at a time. Neither copyable nor movable.
/// Thread-safety: one thread at a time; the thread that created the guard must destroy it.
class LOCKSTEP_API PreemptionGuard {
 public:
  /// Exit code of a program that has saved its state and must be started again. It is not 0, because 0 would mean that
  /// the work is done.
  static constexpr int exit_code = lockstep::exit_code::saved;

  /// Local. Throws Error(failed_precondition) if another guard exists; Error(invalid_argument) for a signal that cannot
  /// be handled, and for a `check_every` below 1; Error(unavailable) if the thread that takes the signals cannot be
  /// started.
  explicit PreemptionGuard(Strategy& strategy, const PreemptionOptions& options = {});
  PreemptionGuard(const PreemptionGuard&) = delete;
  PreemptionGuard& operator=(const PreemptionGuard&) = delete;
  ~PreemptionGuard();

  /// Returns whether any rank had received a signal when it made this call. A call that does not ask the other ranks
  /// (see check_every) returns the previous result. The result is equal on all ranks; after the first true result, all
  /// results are true. Collective, in cross-replica context or outside of every scope: all ranks must make this call
  /// after the same steps.
  /// Cost of a call that asks the other ranks: one all_reduce of 4 bytes. It takes some microseconds on one node;
  /// between nodes, it takes the latency of a few messages.
  [[nodiscard]] bool should_stop();
  /// Whether this rank has received a signal. Local.
  [[nodiscard]] bool has_signal() const noexcept;

 private:
  class Handlers;
  Communicator communicator_;
  Owned<Handlers> handlers_;
  int check_every_;
  std::int64_t calls_ = 0;
  bool stopping_ = false;
};

}  // namespace lockstep
