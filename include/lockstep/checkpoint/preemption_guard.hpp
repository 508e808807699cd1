// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Stops a job before its batch system kills it. The batch system sends a signal some time before it ends the job; then
// all ranks stop at the same step, save a checkpoint, and exit with a code that asks for a restart.

#pragma once

#include <lockstep/base/exit_code.hpp>
#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

class Strategy;

struct PreemptionOptions {
  /// Signals that announce the end of the job. Default: SIGTERM, SIGUSR1 (Slurm: `sbatch --signal=USR1@120`), and
  /// SIGINT (ctrl-C) unless the process was started with SIGINT ignored, as shells start jobs in the background.
  std::vector<int> signals = {};
  /// `should_stop` asks the other ranks in every check_every-th call; at least 1. A larger number costs less but reacts
  /// later.
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
/// A thread of the guard takes the signals; no handler interrupts a thread that computes. For this the signals are
/// blocked on the thread that creates the guard and, in any case, on all threads that lockstep starts; threads that the
/// program starts later inherit the mask. A thread that exists before the guard and does not block the signals (MPI's
/// own, which do not compute; a user's; OpenMP's) may run a handler, which only sets a flag: create the guard before
/// such threads if they compute.
/// The first SIGINT is taken as the other signals are; the second one ends the process at once, as without a guard.
/// The guard replaces the program's own handlers of the signals: they do not run while it exists. The destructor
/// restores them and the mask of its thread, with one exception: once `should_stop` has returned true, the signals
/// (except SIGINT) are ignored from then on, because the job is about to exit, and the ranks receive their signals at
/// different times. In a child process after fork() handlers and mask are the former ones at once; a child of
/// posix_spawn, system or popen inherits the mask.
/// Only one guard may exist in a process at a time. Neither copyable nor movable.
/// Thread-safety: one thread at a time; the thread that created it must destroy it.
class LOCKSTEP_API PreemptionGuard {
 public:
  /// The state is saved, and the job is to be restarted. (0 would mean that the work is done.)
  static constexpr int exit_code = lockstep::exit_code::saved;

  /// Local. Throws Error(failed_precondition) if another guard exists, Error(invalid_argument) for a signal that cannot
  /// be handled and for a `check_every` below 1.
  explicit PreemptionGuard(Strategy& strategy, const PreemptionOptions& options = {});
  PreemptionGuard(const PreemptionGuard&) = delete;
  PreemptionGuard& operator=(const PreemptionGuard&) = delete;
  ~PreemptionGuard();

  /// Whether any rank received a signal before its call. The result is equal on all ranks, and stays true. Collective,
  /// in cross-replica context or outside of every scope: all ranks call it after the same steps.
  /// Cost: one all_reduce of 4 bytes in every check_every-th call, some microseconds on a node, the latency of a few
  /// messages between nodes.
  [[nodiscard]] bool should_stop();
  /// Whether this rank has received a signal. Local.
  [[nodiscard]] bool has_signal() const noexcept;

 private:
  class Handlers;
  Communicator communicator_;
  std::unique_ptr<Handlers> handlers_;
  int check_every_;
  std::int64_t calls_ = 0;
  bool stopping_ = false;
};

}  // namespace lockstep
