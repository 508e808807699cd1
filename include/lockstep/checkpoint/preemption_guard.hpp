// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Stops a job before its batch system kills it. The batch system sends a signal some time before it ends the job; then
// all ranks stop at the same step, save a checkpoint, and exit with a code that asks for a restart.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

class Strategy;

struct PreemptionOptions {
  /// Signals that announce the end of the job. Default: SIGTERM and SIGUSR1 (Slurm: `sbatch --signal=USR1@120`).
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
/// The handler only sets a flag. The destructor restores the former handlers. Only one guard may exist in a process at
/// a time. Neither copyable nor movable.
/// Thread-safety: one thread at a time; the signal may arrive on any thread.
class LOCKSTEP_API PreemptionGuard {
 public:
  /// EX_TEMPFAIL of <sysexits.h>: the state is saved, and the job is to be restarted. (0 would mean that the work is
  /// done.)
  static constexpr int exit_code = 75;

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
  struct Handlers;
  Communicator communicator_;
  std::unique_ptr<Handlers> handlers_;
  int check_every_;
  std::int64_t calls_ = 0;
  bool stopping_ = false;
};

}  // namespace lockstep
